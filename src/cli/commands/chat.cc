#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/conversation_model.h"
#include "cli/request_stats.h"
#include "cli/terminal/chat_file.h"
#include "cli/terminal/output.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/word_wrap.h"

namespace fathom::cli {
namespace {

constexpr std::string_view kHelp =
    "/help          this list\n"
    "/reset         forget the conversation, keep the system prompt\n"
    "/system TEXT   set the system prompt and start anew; without TEXT there is none\n"
    "/think MODE    reasoning before the answer: off, high or max\n"
    "/save FILE     write the conversation to a file\n"
    "/load FILE     go on with the conversation of a file\n"
    "/retry         answer the last message again\n"
    "/stats         tokens and speed\n"
    "/quit          leave (as Ctrl-D does)\n"
    "Another line of a message: Alt-Enter, or Enter behind a backslash. A pasted text is one "
    "message.\n"
    "Ctrl-C stops an answer. A message that begins with a slash: write the slash twice.\n";

// One conversation at a terminal or through pipes. On a terminal an error is shown and the chat
// continues; through pipes it ends the program, as in a script.
class Chat {
 public:
  Chat(const ChatCommand& command, ConversationModel& model, TerminalReader& lines)
      : model_(model), lines_(lines), style_(StyleFor(STDOUT_FILENO, command.use_style)) {
    ChooseThinking(command.think);
    StartWith(command.system);
  }

  Status Run() {
    const Status greeted = Note("fathom chat; /help says what can be said");
    if (!greeted) return greeted;
    std::string line;
    while (!done_) {
      const Result<LineEvent> event = lines_.Read("> ", line);
      if (!event) return Unexpected(event.error());
      if (*event == LineEvent::kEnd) return lines_.on_terminal() ? Print("\n") : Status();
      Status status;
      if (*event == LineEvent::kLine) {
        status = Handle(line);
      } else if (lines_.on_terminal()) {
        status = Print("^C (/quit or Ctrl-D leaves)\n");
      } else {
        return {};  // Ctrl-C outside an answer: the user wants to leave
      }
      if (!status && (IsQuiet(status.error()) || !lines_.on_terminal() ||
                      status.error().code == ErrorCode::kUnavailable)) {
        return status;  // kUnavailable: the engine has stopped
      }
      if (!status) {
        PrintError("fathom: error: " + status.error().message + "\n");
      }
    }
    return {};
  }

 private:
  Status Handle(const std::string& line) {
    if (line.starts_with("//")) return Ask(line.substr(1));
    if (line.starts_with('/')) {
      const std::size_t blank = line.find(' ');
      const std::string name = line.substr(0, blank);
      const std::size_t begin =
          blank == std::string::npos ? blank : line.find_first_not_of(' ', blank);
      return RunSlashCommand(name, begin == std::string::npos ? "" : line.substr(begin));
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) return {};
    return Ask(line);
  }

  Status RunSlashCommand(const std::string& name, const std::string& argument) {
    if (name == "/help") return Print(kHelp);
    if (name == "/reset") return Reset();
    if (name == "/system") return SetSystem(argument);
    if (name == "/think") return SetThink(argument);
    if (name == "/save") return Save(argument);
    if (name == "/load") return Load(argument);
    if (name == "/retry") return Retry();
    if (name == "/stats") return Print(Stats());
    if (name == "/quit") {
      done_ = true;
      return {};
    }
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: unknown command; there are /help /reset /system /think /save /load "
                     "/retry /stats /quit",
                     name);
  }

  Status Ask(const std::string& text) {
    messages_.push_back({.role = Role::kUser, .content = text});
    bool reasoning_shown = false;
    bool dimmed = false;
    WordWrap wrap(lines_.on_terminal() ? TerminalColumns(STDOUT_FILENO) : 0);
    const Result<ChatAnswer> answer =
        model_.Answer(messages_, think_, [&](const AnswerDelta& delta) -> Status {
          std::string shown;
          // Without a terminal the output contains only the answers.
          if (!delta.reasoning.empty() && lines_.on_terminal()) {
            shown += std::exchange(dimmed, true) ? "" : style_.dim;
            shown += wrap.Add(delta.reasoning);
            reasoning_shown = true;
          }
          if (!delta.content.empty()) {
            if (std::exchange(dimmed, false)) shown.append(wrap.Flush()).append(style_.normal);
            if (std::exchange(reasoning_shown, false)) shown += wrap.Add("\n\n");
            shown += wrap.Add(delta.content);
          }
          return Print(shown);
        });
    std::string end = wrap.Flush();
    end += dimmed ? style_.normal : "";
    end += wrap.in_line() ? "\n" : "";
    const Status ended = Print(end);
    if (!answer) {
      messages_.pop_back();
      return Unexpected(answer.error());
    }
    return ended ? Keep(*answer) : ended;
  }

  // The conversation stays unchanged if there is no other answer.
  Status Retry() {
    const auto last =
        std::ranges::find(messages_.rbegin(), messages_.rend(), Role::kUser, &Message::role);
    if (last == messages_.rend()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "/retry: expected an earlier message, found none");
    }
    const std::vector<Message> before = messages_;
    const std::string text = last->content;
    messages_.erase(last.base() - 1, messages_.end());
    const std::size_t n_kept = messages_.size();
    Status asked = Ask(text);
    if (messages_.size() == n_kept) messages_ = before;
    return asked;
  }

  Status Keep(const ChatAnswer& answer) {
    last_ = answer.stats;
    n_generated_ += answer.stats.generated_tokens;
    if (answer.interrupted && answer.text.content.empty()) {
      messages_.pop_back();  // as if it had not been asked
    } else {
      messages_.push_back({.role = Role::kAssistant,
                           .content = answer.text.content,
                           .reasoning_content = answer.text.reasoning});
    }
    return answer.interrupted && lines_.on_terminal() ? Print("(stopped)\n") : Status();
  }

  bool has_system() const { return !messages_.empty() && messages_[0].role == Role::kSystem; }

  Status Reset() {
    messages_.resize(has_system() ? 1 : 0);
    return Note("a new conversation");
  }

  Status SetSystem(const std::string& text) {
    StartWith(text);
    return Note("a new conversation");
  }

  void StartWith(const std::string& system) {
    messages_.clear();
    if (!system.empty()) {
      messages_.push_back({.role = Role::kSystem, .content = system});
    }
  }

  void ChooseThinking(std::optional<Think> think) {
    think_ = think;
    if (!think_ && !model_.thinks()) think_ = Think::kOff;
  }

  Status SetThink(const std::string& name) {
    const auto* found = std::find(std::begin(kThinkNames), std::end(kThinkNames), name);
    if (found == std::end(kThinkNames)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "/think: expected off, high or max, found \"{}\"", name);
    }
    think_ = static_cast<Think>(found - std::begin(kThinkNames));
    return Note("thinking: " + name);
  }

  Status Save(const std::string& path) {
    if (path.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "/save: expected the name of a file");
    }
    const Status saved = SaveChat(path, {.think = think_, .messages = messages_});
    return saved ? Note("saved to " + path) : saved;
  }

  Status Load(const std::string& path) {
    if (path.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "/load: expected the name of a file");
    }
    Result<SavedChat> chat = LoadChat(path);
    if (!chat) return Unexpected(chat.error());
    ChooseThinking(chat->think);
    messages_ = std::move(chat->messages);
    return Note(fmt::format("{} messages from {}", messages_.size(), path));
  }

  std::string Stats() const {
    const std::int64_t n_positions = last_ ? last_->prompt_tokens + last_->generated_tokens : 0;
    std::string stats =
        fmt::format("messages {}; context {} of {} tokens; generated {} tokens; thinking {}\n",
                    messages_.size(), n_positions, model_.n_context(), n_generated_,
                    think_ ? kThinkNames[static_cast<std::size_t>(*think_)] : "on");
    if (last_) {
      stats += fmt::format("last answer: {}; {} prompt tokens cached; {} of {} drafts right\n",
                           DescribeStats(model_.load_seconds(), *last_), last_->cached_tokens,
                           last_->accepted_tokens, last_->drafted_tokens);
    }
    return stats;
  }

  // Reports the effect of a command to an interactive user.
  Status Note(const std::string& text) {
    return lines_.on_terminal() ? Print(fmt::format("{}{}{}\n", style_.dim, text, style_.normal))
                                : Status();
  }

  ConversationModel& model_;
  TerminalReader& lines_;
  const TextStyle style_;
  std::vector<Message> messages_;
  std::optional<Think> think_;  // none: reasoning, without an effort chosen by the user
  std::optional<RequestStats> last_;
  std::int64_t n_generated_ = 0;
  bool done_ = false;
};

}  // namespace

Status RunCommand(const ChatCommand& command, RankProcess& ranks, Log& log) {
  Interrupt interrupt;  // before the model starts its threads
  const Result<std::unique_ptr<ConversationModel>> model =
      ConversationModel::Load(command, ranks, interrupt, log);
  if (!model) return Unexpected(model.error());
  TerminalReader lines(interrupt, command.history);
  return Chat(command, **model, lines).Run();
}

}  // namespace fathom::cli
