#include "cli/batch/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/batch/batch_line.h"
#include "cli/terminal/output.h"

namespace fathom::cli {
namespace {

tl::unexpected<Error> FileError(const std::string& path, const char* what) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

Result<BatchOutput> BatchOutput::Open(const std::string& path, const std::string& input) {
  if (path == "-") return BatchOutput(Descriptor(), path);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return FileError(path, "write");
  BatchOutput output(std::move(file), path);
  if (Status checked = output.CheckFile(input); !checked) return Unexpected(checked.error());
  if (Status locked = output.Lock(); !locked) return Unexpected(locked.error());
  if (Status recovered = output.Recover(); !recovered) return Unexpected(recovered.error());
  return output;
}

Status BatchOutput::CheckFile(const std::string& input) const {
  struct stat out = {};
  if (::fstat(file_.get(), &out) != 0) return FileError(path_, "write");
  if (!S_ISREG(out.st_mode)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a regular file, which a later run can go on with; for a pipe "
                     "write to -",
                     path_);
  }
  struct stat in = {};
  const int read = input == "-" ? ::fstat(STDIN_FILENO, &in) : ::stat(input.c_str(), &in);
  if (read == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected another file than the input, found the same", path_);
  }
  return {};
}

Status BatchOutput::Lock() const {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK) {
    return MakeError(ErrorCode::kResourceExhausted, "{}: another batch is writing to it", path_);
  }
  return FileError(path_, "lock");
}

Status BatchOutput::Recover() {
  const Result<std::string> content = ReadDescriptor(file_.get(), path_, kMostBatchBytes);
  if (!content) return Unexpected(content.error());
  std::string_view rest = *content;
  for (std::int64_t number = 1;; ++number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    const Result<BatchOutputKey> key = ParseBatchOutputLine(rest.substr(0, end));
    if (!key) {
      return MakeError(ErrorCode::kInvalidData, "{}: line {}: {}", path_, number,
                       key.error().message);
    }
    if (key->line_number > 0) {
      failed_lines_.insert(key->line_number);
    } else {
      if (key->is_error) failed_.insert(key->custom_id);
      answered_.insert(key->custom_id);
    }
    rest.remove_prefix(end + 1);
  }
  if (!MayBeginBatchOutput(rest)) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected the output of a batch, found another text at its end", path_);
  }
  n_bytes_ = static_cast<off_t>(content->size() - rest.size());
  if (!rest.empty() && ::ftruncate(file_.get(), n_bytes_) != 0) {
    return FileError(path_, "cut off its last line, which is not complete");
  }
  return {};
}

Status BatchOutput::CheckWhole() const {
  if (!is_file()) return {};
  struct stat found = {};
  if (::fstat(file_.get(), &found) != 0) return FileError(path_, "read its size");
  if (found.st_nlink == 0) {
    return MakeError(ErrorCode::kIo, "{}: the file was removed while the batch wrote to it", path_);
  }
  if (found.st_size != n_bytes_) {
    return MakeError(ErrorCode::kIo,
                     "{}: expected the {} bytes that the batch has written, found {}: the file was "
                     "changed meanwhile; the same command asks again for the answers it lacks",
                     path_, n_bytes_, found.st_size);
  }
  return {};
}

Status BatchOutput::Append(std::string_view line) {
  if (!is_file()) return Print(line);
  if (Status whole = CheckWhole(); !whole) return whole;
  const Status written = WriteDescriptor(file_.get(), path_, line);
  if (written) {
    n_bytes_ += static_cast<off_t>(line.size());
    return {};
  }
  const bool is_whole = ::ftruncate(file_.get(), n_bytes_) == 0;
  return MakeError(written.error().code,
                   "{}; what was written before is {}; the same command goes "
                   "on from there",
                   written.error().message,
                   is_whole ? "complete" : "complete but for its last line");
}

}  // namespace fathom::cli
