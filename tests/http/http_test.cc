// The server as an honest client sees it.
#include "http/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/http/http_server_test.h"

namespace fathom::http {
namespace {

using testing::ClientResponse;
using testing::ClientSocket;
using testing::Echo;
using testing::Get;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::Post;

using HttpTest = testing::HttpServerTest;

TEST_F(HttpTest, AnswersARequest) {
  Listen();
  const ClientResponse response = Ask(Get("/v1/models?limit=2"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "GET /v1/models limit=2 ");
  EXPECT_EQ(response.Field("Content-Type"), "text/plain");
  EXPECT_EQ(response.Field("Server"), "fathom");
  EXPECT_EQ(response.Field("Connection"), "");
  EXPECT_THAT(response.Field("Date"),
              MatchesRegex("[MTWFS][a-z][a-z], [0-9]+ [A-Z][a-z][a-z] 20[0-9]+ [0-9:]+ GMT"));
}

TEST_F(HttpTest, GivesTheHandlerTheRequestAsItCame) {
  HttpRequest seen;
  Listen([&](const HttpRequest& request, HttpExchange& exchange) {
    seen = request;
    exchange.Send({.status = 204});
  });
  const ClientResponse response =
      Ask("POST /a%20b?c=d?e HTTP/1.1\r\nB: 1\r\nHost: x\r\nb: 2\r\nC:  \t3 \r\n"
          "content-length: 3\r\n\r\n{\n}");
  EXPECT_EQ(response.status, 204);
  EXPECT_THAT(response.header, Not(HasSubstr("Content-")));
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.path, "/a%20b");
  EXPECT_EQ(seen.query, "c=d?e");
  EXPECT_EQ(seen.body, "{\n}");
  EXPECT_EQ(seen.peer, "127.0.0.1");
  const HttpFields expected = {
      {"B", "1"}, {"Host", "x"}, {"b", "2"}, {"C", "3"}, {"content-length", "3"}};
  EXPECT_EQ(seen.fields, expected);
  EXPECT_EQ(seen.Field("HOST"), "x");
  EXPECT_EQ(seen.Field("b"), "1");
  EXPECT_EQ(seen.Field("Hos"), "");
}

TEST_F(HttpTest, TakesTheTargetOfAProxy) {
  Listen();
  EXPECT_EQ(Ask(Get("http://test:80/a?b")).body, "GET /a b ");
  EXPECT_EQ(Ask(Get("HTTP://test")).body, "GET /  ");
}

TEST_F(HttpTest, KeepsAConnectionForMoreRequests) {
  Listen();
  ClientSocket client = Connect();
  for (int i = 0; i < 100; ++i) {
    const std::string path = "/" + std::to_string(i);
    EXPECT_EQ(client.Ask(Post(path, "x")).body, "POST " + path + "  x");
  }
  EXPECT_EQ(server_->counts().accepted, 1U);
}

TEST_F(HttpTest, AnswersPipelinedRequestsInOrder) {
  Listen();
  ClientSocket client = Connect();
  client.Send(Post("/1", "one") + Get("/2") + "\r\n" + Post("/3", "three") + "GE");
  EXPECT_EQ(client.ReadResponse().body, "POST /1  one");
  EXPECT_EQ(client.ReadResponse().body, "GET /2  ");
  EXPECT_EQ(client.ReadResponse().body, "POST /3  three");
  client.Send("T /4 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "GET /4  ");
}

TEST_F(HttpTest, ReadsARequestThatComesByteByByte) {
  Listen();
  ClientSocket client = Connect();
  const std::string request =
      "\r\nPOST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=\"v\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n";
  for (const char c : request + request) ASSERT_TRUE(client.Send({&c, 1}));
  EXPECT_EQ(client.ReadResponse().body, "POST /slow  abc0123456789");
  EXPECT_EQ(client.ReadResponse().body, "POST /slow  abc0123456789");
}

TEST_F(HttpTest, LeavesOutTrailers) {
  HttpRequest seen;
  Listen([&](const HttpRequest& request, HttpExchange& exchange) {
    seen = request;
    Echo(request, exchange);
  });
  EXPECT_EQ(Ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
                "0\r\nAuthorization: Bearer x\r\n\r\n")
                .status,
            200);
  EXPECT_EQ(seen.Field("Authorization"), "");
}

TEST_F(HttpTest, CarriesAnyBytes) {
  Listen();
  std::string body;
  for (int i = 0; i < 1'000'000; ++i) body += static_cast<char>(i * 7 + i / 256);
  EXPECT_TRUE(Ask(Post("/", body)).body == "POST /  " + body);
}

TEST_F(HttpTest, ClosesWhenTheClientWantsIt) {
  Listen();
  ClientSocket client = Connect();
  EXPECT_EQ(client.Ask(Get("/", "Connection: Keep-Alive, Close\r\n")).Field("Connection"), "close");
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(HttpTest, SpeaksHttp1_0) {
  Listen([](const HttpRequest& request, HttpExchange& exchange) {
    if (request.path == "/stream") {
      exchange.StartStream({.body = "one,"});
      exchange.Write("");
      exchange.Write("two");
    } else {
      Echo(request, exchange);
    }
  });
  ClientSocket client = Connect();
  const ClientResponse kept = client.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.Field("Connection"), "keep-alive");
  EXPECT_EQ(kept.body, "GET /  ");
  const ClientResponse stream =
      client.Ask("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(stream.Field("Connection"), "close");
  EXPECT_EQ(stream.Field("Transfer-Encoding"), "");
  EXPECT_EQ(stream.body, "one,two");
  ClientSocket other = Connect();
  EXPECT_EQ(other.Ask("GET / HTTP/1.0\r\n\r\n").Field("Connection"), "close");
  EXPECT_TRUE(other.HasEnded());
}

TEST_F(HttpTest, AnswersHeadWithoutABody) {
  Listen([](const HttpRequest& request, HttpExchange& exchange) {
    if (request.path == "/stream") {
      EXPECT_TRUE(exchange.StartStream({.body = "one"}));
      EXPECT_TRUE(exchange.Write("two"));
    } else {
      Echo(request, exchange);
    }
  });
  ClientSocket client = Connect();
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n" +
              Get("/b"));
  EXPECT_EQ(client.ReadResponse(true).Field("Content-Length"), "9");
  EXPECT_EQ(client.ReadResponse(true).Field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(client.ReadResponse().body, "GET /b  ");
}

TEST_F(HttpTest, AsksForTheBodyOfACarefulClient) {
  Listen();
  ClientSocket client = Connect();
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().header, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.Ask("ok").body, "POST /  ok");
  // A client that does not wait needs no permission.
  EXPECT_EQ(client.Ask(Post("/", "ok", "Expect: 100-continue\r\n")).body, "POST /  ok");
}

TEST_F(HttpTest, TurnsAHandlerWithoutAnAnswerInto500) {
  options_.answer_refusal = [](const HttpRequest& request, const HttpRefusal& refusal) {
    return HttpResponse{.status = refusal.status, .body = request.path + ": " + refusal.message};
  };
  Listen([](const HttpRequest& request, HttpExchange&) {
    if (request.path == "/throw") throw std::runtime_error("secret");
  });
  ClientSocket client = Connect();
  for (const char* path : {"/silent", "/throw"}) {
    const ClientResponse response = client.Ask(Get(path));
    EXPECT_EQ(response.status, 500);
    EXPECT_EQ(response.Field("Content-Type"), "application/json");
    EXPECT_EQ(response.body, std::string(path) + ": Internal error.");
  }
}

TEST_F(HttpTest, TellsAClientThatHasEndedItsSendingWhyThereIsNoAnswer) {
  Listen([](const HttpRequest&, HttpExchange& exchange) {
    EXPECT_TRUE(Eventually([&] { return exchange.ClientIsGone(); }));
  });
  ClientSocket client = Connect();
  client.Send(Get("/"));
  client.EndSending();
  const ClientResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("until the answer has come"), std::string::npos) << response.body;
}

TEST_F(HttpTest, CutsAStreamOffThatThrows) {
  Listen([](const HttpRequest&, HttpExchange& exchange) {
    exchange.StartStream({.body = "one"});
    throw 1;
  });
  ClientSocket client = Connect();
  const ClientResponse response = client.Ask(Get("/"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "one");
  EXPECT_FALSE(response.is_whole);
}

TEST_F(HttpTest, SendsTheFieldsOfTheHandler) {
  Listen([](const HttpRequest& request, HttpExchange& exchange) {
    exchange.Send({.status = 429,
                   .fields = {{"X-Request-Id", request.query + "a\r\nSet-Cookie: b\n\0c"},
                              {"Retry-After", "1"}},
                   .body = "{}"});
  });
  const ClientResponse response = Ask(Get("/?1"));
  EXPECT_THAT(response.header, HasSubstr("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_EQ(response.Field("X-Request-Id"), "1a  Set-Cookie: b ");
  EXPECT_EQ(response.Field("Set-Cookie"), "");
  EXPECT_EQ(response.Field("Retry-After"), "1");
}

TEST_F(HttpTest, CountsWhatGoesOn) {
  std::atomic<bool> may_end = false;
  Listen([&](const HttpRequest& request, HttpExchange& exchange) {
    while (!may_end) std::this_thread::yield();
    Echo(request, exchange);
  });
  ClientSocket client = Connect();
  ClientSocket idle = Connect();
  client.Send(Post("/", "12345"));
  EXPECT_TRUE(testing::Eventually([&] {
    const HttpCounts counts = server_->counts();
    return counts.connections == 2 && counts.handling == 1 && counts.body_bytes == 5;
  }));
  may_end = true;
  EXPECT_EQ(client.ReadResponse().status, 200);
  EXPECT_TRUE(testing::Eventually([&] { return server_->counts().body_bytes == 0; }));
  const HttpCounts counts = server_->counts();
  EXPECT_EQ(counts.handling, 0U);
  EXPECT_EQ(counts.accepted, 2U);
  EXPECT_EQ(counts.refused, 0U);
}

TEST_F(HttpTest, ServesManyClientsAtOnce) {
  Listen();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 20; ++j) {
        ClientSocket client = Connect();
        const std::string body(static_cast<std::size_t>(1 + 997 * i), 'x');
        for (int k = 0; k < 3; ++k) EXPECT_EQ(client.Ask(Post("/", body)).body, "POST /  " + body);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(server_->counts().accepted, 640U);
  EXPECT_TRUE(testing::Eventually([&] { return server_->counts().connections == 0; }));
}

}  // namespace
}  // namespace fathom::http
