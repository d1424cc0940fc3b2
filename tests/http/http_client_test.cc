// The client against servers that say exactly what a test wants.
#include "http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/scripted_peer.h"

namespace fathom::http {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::ChunkText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReplyText;
using testing::ScriptedConnection;
using testing::ScriptedPeer;
using ::testing::StartsWith;
using testing::StreamEnd;
using testing::StreamHeader;

// Says the same to every request, and closes then if so told.
ScriptedPeer::Script Always(std::string reply, bool closes = false) {
  return [reply, closes](ScriptedConnection& connection) {
    while (connection.ReadRequest() && connection.Write(reply) && !closes) {
    }
  };
}

void ExpectError(const Result<HttpReply>& reply, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(reply) << reply->status << " " << reply->body;
  EXPECT_EQ(reply.error().code, code) << reply.error().message;
  EXPECT_THAT(reply.error().message, AllOf(StartsWith("http://127.0.0.1:"), HasSubstr(part)));
}

TEST(HttpClientTest, SendsWhatItIsToldAndReadsTheReply) {
  std::string request;
  ScriptedPeer server([&](ScriptedConnection& connection) {
    request = connection.ReadRequest().value_or("");
    connection.Write(ReplyText(404, "{}", "Content-Type: application/json\r\nX-A: b\r\n"));
    connection.WaitForClose();
  });
  HttpClient client(server.url() + "/prefix");
  const Result<HttpReply> reply = client.Send(
      {.method = "POST", .path = "/v1/x?y=z", .fields = {{"X-Key", "k"}}, .body = "body"});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 404);
  EXPECT_EQ(reply->content_type, "application/json");
  EXPECT_EQ(reply->body, "{}");
  EXPECT_THAT(reply->fields, ::testing::Contains(::testing::Pair("X-A", "b")));
  EXPECT_EQ(request,
            "POST /prefix/v1/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
                "\r\nX-Key: k\r\nContent-Length: 4\r\n\r\nbody");
}

TEST(HttpClientTest, KeepsTheConnection) {
  ScriptedPeer server(Always(ReplyText(200, "ok")));
  HttpClient client(server.url());
  for (int i = 0; i < 5; ++i) {
    const Result<HttpReply> reply = client.Send({.path = "/"});
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->body, "ok");
  }
  EXPECT_EQ(server.n_connections(), 1);
}

TEST(HttpClientTest, ConnectsAgainWhereTheServerHasClosed) {
  ScriptedPeer polite(Always(ReplyText(200, "ok", "Connection: close\r\n"), true));
  HttpClient first(polite.url());
  ScriptedPeer rude(Always(ReplyText(200, "ok"), true));
  HttpClient second(rude.url());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(first.Send({.path = "/"}));
    EXPECT_TRUE(second.Send({.path = "/"}));
    while (rude.n_open() > 0) {  // it says nothing of it, so let it close before the next
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  EXPECT_EQ(polite.n_connections(), 3);
  EXPECT_EQ(rude.n_connections(), 3);
}

TEST(HttpClientTest, BytesNobodyAskedForEndTheConnection) {
  ScriptedPeer server(Always(ReplyText(200, "ok") + "surplus"));
  HttpClient client(server.url());
  for (int i = 0; i < 2; ++i) {
    const Result<HttpReply> reply = client.Send({.path = "/"});
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->body, "ok");
  }
  EXPECT_EQ(server.n_connections(), 2);
}

TEST(HttpClientTest, ReadsAChunkedBodyCutAnywhere) {
  const std::string reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                            ChunkText("hello ") + "5;ext=1\r\nworld\r\n" +
                            "0\r\nTrailer: x\r\n\r\n";
  std::atomic<std::size_t> cut = 0;
  ScriptedPeer server([&](ScriptedConnection& connection) {
    while (connection.ReadRequest()) {
      connection.Write(reply.substr(0, cut));
      std::this_thread::sleep_for(milliseconds(2));
      connection.Write(reply.substr(cut));
    }
  });
  HttpClient client(server.url());
  for (cut = 0; cut < reply.size(); ++cut) {
    const Result<HttpReply> read = client.Send({.path = "/"});
    ASSERT_TRUE(read) << cut << ": " << read.error().message;
    ASSERT_EQ(read->body, "hello world") << cut;
  }
  EXPECT_EQ(server.n_connections(), 1);
}

TEST(HttpClientTest, ReadsABodyThatEndsWithTheConnection) {
  ScriptedPeer server(Always("HTTP/1.1 200 OK\r\n\r\nto the end", true));
  HttpClient client(server.url());
  for (int i = 0; i < 2; ++i) {
    const Result<HttpReply> reply = client.Send({.path = "/"});
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->body, "to the end");
  }
}

TEST(HttpClientTest, ReadsABodyOfManyPieces) {
  std::string body;
  for (int i = 0; i < 200'000; ++i) {
    body += std::to_string(i);
  }
  ScriptedPeer server(Always(ReplyText(200, body)));
  HttpClient client(server.url());
  const Result<HttpReply> reply = client.Send({.path = "/"});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, body);
}

TEST(HttpClientTest, PassesOverRepliesThatAreNotTheLast) {
  ScriptedPeer server(
      Always("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n"
             "\r\n" +
             ReplyText(200, "ok")));
  HttpClient client(server.url());
  const Result<HttpReply> reply = client.Send({.path = "/"});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, "ok");
}

TEST(HttpClientTest, RepliesWithoutABodyEnd) {
  ScriptedPeer server([](ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");  // to HEAD
    connection.ReadRequest();
    connection.Write("HTTP/1.1 204 No Content\r\n\r\n");
    connection.WaitForClose();
  });
  HttpClient client(server.url());
  EXPECT_EQ(client.Send({.method = "HEAD", .path = "/"})->status, 200);
  EXPECT_EQ(client.Send({.path = "/"})->status, 204);
  EXPECT_EQ(server.n_connections(), 1);
}

// Each piece is handed on before the next is sent, or this would not end.
TEST(HttpClientTest, StreamsPiecesAsTheyCome) {
  std::atomic<int> n_taken = 0;
  ScriptedPeer server([&](ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Write(StreamHeader());
    for (int i = 0; i < 3; ++i) {
      connection.Write(ChunkText(std::string(1, static_cast<char>('a' + i))));
      n_taken.wait(i);
    }
    connection.Write(StreamEnd());
    connection.WaitForClose();
  });
  HttpClient client(server.url(), {.request_time = milliseconds(20'000)});
  std::vector<std::string> pieces;
  const Result<HttpReply> reply = client.Send({.path = "/"}, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    ++n_taken;
    n_taken.notify_all();
    return true;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->content_type, "text/event-stream");
  EXPECT_EQ(reply->body, "");
  EXPECT_THAT(pieces, ElementsAre("a", "b", "c"));
}

TEST(HttpClientTest, KeepsTheBodyOfARefusalFromTheSink) {
  ScriptedPeer server(Always(ReplyText(503, "busy")));
  HttpClient client(server.url());
  const Result<HttpReply> reply = client.Send({.path = "/"}, [](std::string_view) {
    ADD_FAILURE() << "a refusal is no stream";
    return true;
  });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->body, "busy");
}

TEST(HttpClientTest, ASinkThatHasEnoughClosesTheConnection) {
  std::atomic<bool> closed = false;
  ScriptedPeer server([&](ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Write(StreamHeader() + ChunkText("a"));
    connection.WaitForClose();
    closed = true;
    closed.notify_all();
  });
  HttpClient client(server.url());
  ExpectError(client.Send({.path = "/"}, [](std::string_view) { return false; }),
              ErrorCode::kUnavailable, "ended by the reader of the stream");
  closed.wait(false);
}

TEST(HttpClientTest, CancelEndsAWaitingRequest) {
  std::atomic<bool> waiting = false;
  ScriptedPeer server([&](ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Write(StreamHeader());
    waiting = true;
    waiting.notify_all();
    connection.WaitForClose();
  });
  HttpClient client(server.url());
  const std::jthread other([&] {
    waiting.wait(false);
    client.Cancel();
  });
  ExpectError(client.Send({.path = "/"}), ErrorCode::kUnavailable, "cancelled");
  ExpectError(client.Send({.path = "/"}), ErrorCode::kUnavailable, "cancelled");
}

TEST(HttpClientTest, TimesOut) {
  const auto wait = [](ScriptedConnection& connection) {
    if (!connection.ReadRequest()) return;
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
    connection.WaitForClose();
  };
  ScriptedPeer server(wait);
  HttpClient client(server.url(), {.request_time = milliseconds(100)});
  const auto start = std::chrono::steady_clock::now();
  ExpectError(client.Send({.method = "POST", .path = "/slow"}), ErrorCode::kIo,
              "POST /slow: timed out");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(100));
}

TEST(HttpClientTest, TimesOutWhileNobodyReadsTheRequest) {
  std::latch has_ended(1);
  ScriptedPeer server([&](ScriptedConnection&) { has_ended.wait(); });
  HttpClient client(server.url(), {.request_time = milliseconds(100)});
  ExpectError(client.Send({.method = "POST", .path = "/", .body = std::string(64 << 20, 'x')}),
              ErrorCode::kIo, "timed out");
  has_ended.count_down();
}

TEST(HttpClientTest, RefusedConnectionsAreExplained) {
  int port = 0;
  {
    const ScriptedPeer server([](ScriptedConnection&) {});
    port = server.port();
  }
  HttpClient client("http://127.0.0.1:" + std::to_string(port));
  ExpectError(client.Send({.path = "/x"}), ErrorCode::kIo,
              std::to_string(port) + ": GET /x: cannot connect: Connection refused");
}

TEST(HttpClientTest, AServerThatClosesEarlyIsAnError) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "without a reply"},
      {"HTTP/1.1 200 OK\r\nConte", "in the header"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "in the body"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "in the body"}};
  for (const auto& [reply, message] : cases) {
    ScriptedPeer server(Always(reply, true));
    HttpClient client(server.url());
    ExpectError(client.Send({.path = "/"}), ErrorCode::kIo, message);
  }
}

TEST(HttpClientTest, LimitsHold) {
  const HttpClientLimits limits = {.header_bytes = 100, .body_bytes = 10};
  const std::pair<std::string, std::string> cases[] = {
      {ReplyText(200, "01234567890"), "more than 10 bytes"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + ChunkText("012345") +
           ChunkText("678901"),
       "more than 10 bytes"},
      {"HTTP/1.1 200 OK\r\nA: " + std::string(100, 'b') + "\r\n\r\n", "limit"}};
  for (const auto& [reply, message] : cases) {
    ScriptedPeer server(Always(reply));
    HttpClient client(server.url(), limits);
    ExpectError(client.Send({.path = "/"}), ErrorCode::kInvalidData, message);
  }
  ScriptedPeer server(Always(ReplyText(200, "0123456789")));
  EXPECT_TRUE(HttpClient(server.url(), limits).Send({.path = "/"}));
}

TEST(HttpClientTest, WhatIsNotHttpIsRefused) {
  for (const std::string reply :
       {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    ScriptedPeer server(Always(reply));
    HttpClient client(server.url());
    ExpectError(client.Send({.path = "/"}), ErrorCode::kInvalidData, "the reply is not HTTP/1.1");
  }
}

TEST(HttpClientTest, HttpsNeedsAServerThatSpeaksTls) {
  ScriptedPeer server([](ScriptedConnection& connection) {
    connection.Write(ReplyText(200, "ok"));
    connection.WaitForClose();
  });
  HttpClient client("https://127.0.0.1:" + std::to_string(server.port()));
  const Result<HttpReply> reply = client.Send({.path = "/x"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kIo);
  EXPECT_THAT(reply.error().message,
              AllOf(StartsWith("https://127.0.0.1:"), HasSubstr(": GET /x: "), HasSubstr("SSL")));
}

TEST(HttpClientTest, FieldsCannotSmuggleLines) {
  const ScriptedPeer server([](ScriptedConnection&) {});
  HttpClient client(server.url());
  ExpectError(client.Send({.path = "/", .fields = {{"A", "b\r\nC: d"}}}),
              ErrorCode::kInvalidArgument, "a line break in the field A");
  EXPECT_EQ(server.n_connections(), 0);
}

std::string Parsed(const std::string& text) {
  const Result<std::string> url = ParseServerUrl(text);
  return url ? *url : url.error().message;
}

TEST(ParseServerUrlTest, ReadsHostPortAndPrefix) {
  EXPECT_EQ(Parsed("http://example.org:8000/some/prefix/"), "http://example.org:8000/some/prefix");
  EXPECT_EQ(Parsed("https://example.org"), "https://example.org");
  EXPECT_EQ(Parsed("http://[::1]:81"), "http://[::1]:81");
}

TEST(ParseServerUrlTest, PortAndPathMayBeMissing) {
  EXPECT_EQ(Parsed("http://localhost"), "http://localhost");
  EXPECT_EQ(Parsed("http://localhost/"), "http://localhost");
}

TEST(ParseServerUrlTest, RefusesWhatItCannotReach) {
  for (const char* text :
       {"", "localhost:80", "http://", "http://:80", "http://a:", "http://a:0", "http://a:65536",
        "http://a:8x", "http://[::1", "http://[]", "http://[::1]80", "http://a b", "http://a/?q",
        "http://u@a", "ftp://a", "http://a\r\nX: y"}) {
    const Result<std::string> url = ParseServerUrl(text);
    ASSERT_FALSE(url) << text << " became " << *url;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(url.error().message, HasSubstr("expected http://HOST")) << text;
  }
}

}  // namespace
}  // namespace fathom::http
