#include "kv_cache/block_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "kv_cache/layout.h"

namespace fathom::kv_cache {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are written as they lie");

constexpr std::string_view kMagic = "FATHOMKV";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kVersionOffset = 8;
constexpr std::size_t kKeysOffset = 24;
constexpr std::size_t kTokensOffset = 72;
constexpr std::size_t kPayloadChecksumOffset = 584;
constexpr std::size_t kHeaderChecksumOffset = 600;

using Header = std::array<std::byte, static_cast<std::size_t>(kBlockHeaderBytes)>;

tl::unexpected<Error> Failure(const std::string& path, std::string_view what) {
  const int error = errno;
  const bool is_busy = error == EMFILE || error == ENFILE || error == ENOMEM;
  return MakeError(is_busy ? ErrorCode::kResourceExhausted : ErrorCode::kIo, "{}: {}: {}", path,
                   what, std::strerror(error));
}

template <class T>
void Put(Header& header, std::size_t offset, const T& value) {
  std::memcpy(header.data() + offset, &value, sizeof(value));
}

// Returns the header with its checksums still zero.
Header MakeHeader(const BlockKey& fingerprint, const KeptBlock& block, std::size_t payload_bytes) {
  Check(std::ssize(block.tokens) == kBlockTokens, "the tokens of a block are not one block");
  Header header = {};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  Put(header, kVersionOffset, kVersion);
  Put(header, kVersionOffset + 4, static_cast<std::uint32_t>(block.kind));
  Put(header, kVersionOffset + 8, static_cast<std::uint64_t>(payload_bytes));
  Put(header, kKeysOffset, fingerprint.bytes);
  Put(header, kKeysOffset + 16, block.key.bytes);
  Put(header, kKeysOffset + 32, block.parent.bytes);
  std::memcpy(header.data() + kTokensOffset, block.tokens.data(), kBlockTokens * sizeof(Token));
  return header;
}

BlockKey HeaderChecksum(const Header& header) {
  return HashBytes(std::span(header).first(kHeaderChecksumOffset));
}

BlockKey ChecksumAt(const Header& header, std::size_t offset) {
  BlockKey key;
  std::memcpy(key.bytes.data(), header.data() + offset, sizeof(key.bytes));
  return key;
}

void SetTimeToNow(int fd) {
  // Sets explicit times: by default the system takes the time of its last tick, and the order of
  // uses is lost.
  std::timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::array times = {now, now};
  static_cast<void>(::futimens(fd, times.data()));  // a file of another user is only read
}

// Calls transfer(vectors, count, offset) like pwritev until both parts are transferred. False: an
// error, or an end of the file (errno 0).
template <class Transfer>
bool TransferAll(std::span<std::byte> header, std::span<std::byte> payload,
                 const Transfer& transfer) {
  std::size_t done = 0;
  while (done < header.size() + payload.size()) {
    const auto header_left = header.subspan(std::min(done, header.size()));
    const auto payload_left = payload.subspan(done - (header.size() - header_left.size()));
    const std::array vectors = {iovec{header_left.data(), header_left.size()},
                                iovec{payload_left.data(), payload_left.size()}};
    errno = 0;
    const ssize_t n_bytes = transfer(vectors.data(), 2, static_cast<off_t>(done));
    if (n_bytes > 0) {
      done += static_cast<std::size_t>(n_bytes);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool IsNamed(const Descriptor& file, const std::string& path) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(file.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Takes the lock of an unfinished file without waiting. Only the holder of the lock removes or
// renames the file of that name. False: another process holds the lock (errno EWOULDBLOCK), or the
// file has lost this name (0), or the system has no locks.
bool Lock(const Descriptor& file, const std::string& temporary) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const bool is_named = IsNamed(file, temporary);
  errno = 0;
  return is_named;
}

// Creates and locks `temporary`. errno EEXIST: another process is writing the file, or has died.
Descriptor Create(const std::string& temporary) {
  constexpr int kOwnerOnlyFile = 0600;
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         kOwnerOnlyFile));
  // On a system without locks, unfinished files of other processes are never taken for abandoned.
  if (file.get() >= 0 && !Lock(file, temporary) && (errno == EWOULDBLOCK || errno == 0)) {
    file = Descriptor();
    errno = EEXIST;
  }
  return file;
}

// Writes the block and renames the file. file: the descriptor of `temporary`, from Create.
Status WriteAndRename(Descriptor file, const std::string& temporary, const std::string& path,
                      Header& header, std::span<const std::byte> payload) {
  // An iovec serves both directions and is not const; pwritev only reads.
  const std::span<std::byte> bytes(const_cast<std::byte*>(payload.data()), payload.size());
  const auto write = [&](const iovec* vectors, int n, off_t offset) {
    return ::pwritev(file.get(), vectors, n, offset);
  };
  if (!TransferAll(header, bytes, write)) return Failure(temporary, "cannot write");
  SetTimeToNow(file.get());
  if (!file.Close()) return Failure(temporary, "cannot write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const bool is_gone = errno == ENOENT;
    Status status = Failure(path, "cannot rename the finished file to it");
    if (is_gone && ::access(temporary.c_str(), F_OK) != 0) {
      status = MakeError(ErrorCode::kNotFound, "{}: was removed while it was written", temporary);
    }
    return status;
  }
  return {};
}

bool IsFileOfSize(const std::string& path, std::int64_t n_bytes) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == n_bytes;
}

// Waits until no process writes `temporary`, and removes the file that a dead process left. False:
// the wait takes too long.
bool WaitForWriter(const std::string& temporary) {
  constexpr std::chrono::seconds kMost{1};
  constexpr std::chrono::milliseconds kWait{1};
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return errno == ENOENT;
  do {
    std::this_thread::sleep_for(kWait);
    if (Lock(file, temporary)) {
      ::unlink(temporary.c_str());
      return true;
    }
    if (errno == 0) {
      return true;  // the file has been renamed or removed
    }
  } while (errno == EWOULDBLOCK && std::chrono::steady_clock::now() < deadline);
  return false;
}

// Compares the header that was read with the expected header, the most telling difference first.
Status CheckHeader(const std::string& path, const Header& found, const Header& expected) {
  const auto is_same = [&](std::size_t begin, std::size_t end) {
    return std::equal(found.begin() + static_cast<std::ptrdiff_t>(begin),
                      found.begin() + static_cast<std::ptrdiff_t>(end),
                      expected.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  std::string_view what;
  if (!is_same(0, kMagic.size())) {
    what = "expected a block of Fathom, found another file";
  } else if (!is_same(kVersionOffset, kVersionOffset + 4)) {
    what = "is of another version of the format";
  } else if (ChecksumAt(found, kHeaderChecksumOffset) != HeaderChecksum(found)) {
    what = "its header is damaged";
  } else if (!is_same(0, kPayloadChecksumOffset)) {
    what = "holds another block than its name says";
  }
  if (!what.empty()) return MakeError(ErrorCode::kInvalidData, "{}: {}", path, what);
  return {};
}

}  // namespace

Result<bool> WriteBlockFile(const std::string& temporary, const std::string& path,
                            const BlockKey& fingerprint, const KeptBlock& block,
                            std::span<const std::byte> payload) {
  Header header = MakeHeader(fingerprint, block, payload.size());
  Put(header, kPayloadChecksumOffset, HashBytes(payload).bytes);
  Put(header, kHeaderChecksumOffset, HeaderChecksum(header).bytes);
  const auto is_written = [&] {
    return IsFileOfSize(path, kBlockHeaderBytes + std::ssize(payload));
  };
  constexpr int kMostAttempts = 8;
  Status status;
  for (int i = 0; i < kMostAttempts; ++i) {
    if (is_written()) return false;
    Descriptor file = Create(temporary);
    if (file.get() >= 0) {
      if (is_written()) {  // another writer has finished in between
        ::unlink(temporary.c_str());
        return false;
      }
      // Held until the file is renamed or removed; `file` is closed before, as closing may fail.
      const Descriptor lock(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
      status = WriteAndRename(std::move(file), temporary, path, header, payload);
      if (status) return true;
      if (status.error().code != ErrorCode::kNotFound) {
        ::unlink(temporary.c_str());
        break;
      }
    } else if (errno != EEXIST) {
      return Failure(temporary, "cannot create");
    } else {
      status =
          MakeError(ErrorCode::kResourceExhausted, "{}: is being written for too long", temporary);
      if (!WaitForWriter(temporary)) break;
    }
  }
  return Unexpected(status.error());
}

Status ReadBlockFile(const std::string& path, const BlockKey& fingerprint,
                     const KeptBlock& expected, std::span<std::byte> payload) {
  // Opens without waiting: opening something that is not a regular file might block forever.
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) {
    return errno == ENOENT ? MakeError(ErrorCode::kNotFound, "{}: no such file", path)
                           : Failure(path, "cannot open");
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return Failure(path, "cannot read its size");
  const std::int64_t expected_bytes = kBlockHeaderBytes + std::ssize(payload);
  if (!S_ISREG(info.st_mode) || info.st_size != expected_bytes) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a file of {} bytes, found {}", path,
                     expected_bytes, info.st_size);
  }
  Header header;
  const auto read = [&](const iovec* vectors, int n, off_t offset) {
    return ::preadv(file.get(), vectors, n, offset);
  };
  if (!TransferAll(header, payload, read)) {
    return errno == 0 ? MakeError(ErrorCode::kInvalidData, "{}: ends too early", path)
                      : Failure(path, "cannot read");
  }
  const Header right = MakeHeader(fingerprint, expected, payload.size());
  if (Status checked = CheckHeader(path, header, right); !checked) return checked;
  if (ChecksumAt(header, kPayloadChecksumOffset) != HashBytes(payload)) {
    return MakeError(ErrorCode::kInvalidData, "{}: its rows are damaged", path);
  }
  SetTimeToNow(file.get());
  return {};
}

void RemoveIfAbandoned(const std::string& temporary) {
  const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() >= 0 && Lock(file, temporary)) {
    ::unlink(temporary.c_str());
  }
}

}  // namespace fathom::kv_cache
