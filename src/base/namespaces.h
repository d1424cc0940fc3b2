// Namespaces of the folders: the files of src/FOLDER are in fathom::FOLDER (base, which every
// folder uses, is fathom itself) and see the names of the folders below their own. The arrows are
// the picture of docs/structure.md; a directive brings the directives of its folder, too. Where two
// folders have one name, a third writes which it means.
#pragma once

namespace fathom {

namespace json {}
namespace checkpoint {
using namespace json;
}
namespace tokenizer {
using namespace json;
}
namespace chat {
using namespace json;
}
namespace sampling {}
namespace kernels {
using namespace sampling;
}
namespace comm {}
namespace kv_cache {
using namespace kernels;
}
namespace model {
using namespace checkpoint;
using namespace kv_cache;
}  // namespace model
namespace distributed {
using namespace comm;
using namespace model;
}  // namespace distributed
namespace experts {
using namespace distributed;
}
namespace constraint {
using namespace tokenizer;
}
namespace engine {
using namespace comm;
using namespace constraint;
using namespace model;
}  // namespace engine
namespace planning {
using namespace engine;
using namespace experts;
}  // namespace planning
namespace runtime {
using namespace chat;
using namespace planning;
}  // namespace runtime
namespace api {
using namespace chat;
using namespace engine;
}  // namespace api
namespace http {}
namespace server {
using namespace api;
using namespace http;
}  // namespace server
namespace measure {
using namespace http;
using namespace runtime;
}  // namespace measure
namespace cli {
using namespace measure;
using namespace server;
}  // namespace cli

// Programs beside src: tests, fuzz targets, benchmarks, and probes of GPUs see every folder.
namespace testing {
using namespace cli;
}
namespace fuzz {
using namespace cli;
}
namespace benchmarks {
using namespace cli;
}
namespace probe {
using namespace cli;
}

}  // namespace fathom
