#include "constraint/schema/string_formats.h"

#include <fmt/format.h>

#include <map>

namespace fathom::constraint {
namespace {

std::string Group(const std::string& text) { return "(?:" + text + ")"; }

// --- Dates and times (RFC 3339) ---

std::string DateRegex() {
  // Leap years: multiples of 4, but of the centuries only multiples of 400.
  const std::string leap =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return Group(
      "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
      "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
      leap + "-02-29");
}

// A leap second ends a day of UTC: 23:59:60Z, 15:59:60-08:00.
std::string LeapSeconds() {
  constexpr int kDay = 24 * 60;
  const std::string fraction = "(?:\\.[0-9]+)?";
  std::string all = "23:59:60" + fraction + "[Zz]";
  for (int offset = 0; offset < kDay; offset += 30) {
    for (const int sign : {1, -1}) {
      const int local = (kDay - 1 + sign * offset + kDay) % kDay;
      all += fmt::format("|{:02}:{:02}:60{}{}{:02}:{:02}", local / 60, local % 60, fraction,
                         sign > 0 ? "\\+" : "-", offset / 60, offset % 60);
    }
  }
  return all;
}

std::string TimeRegex() {
  const std::string hours_minutes = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  return Group(hours_minutes + ":[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-]" + hours_minutes + ")|" +
               LeapSeconds());
}

std::string DurationRegex() {
  const std::string time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
  const std::string date = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
  return "P(?:" + date + "(?:" + time + ")?|" + time + "|[0-9]+W)";
}

// --- Addresses ---

std::string Ipv4Regex() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return Group("(?:" + octet + "\\.){3}" + octet);
}

std::string Ipv6Regex() {
  const std::string h16 = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + h16 + ":" + h16 + "|" + Ipv4Regex() + ")";
  std::string all = "(?:" + h16 + ":){6}" + last;
  for (int before = 0; before <= 7; ++before) {
    // `before` groups at most, "::", then at most 7 - before groups.
    const std::string head =
        before == 0 ? "" : "(?:(?:" + h16 + ":){0," + std::to_string(before - 1) + "}" + h16 + ")?";
    const int after = 7 - before;
    std::string tail;
    if (after >= 2) tail = "(?:" + h16 + ":){" + std::to_string(after - 2) + "}" + last;
    if (after == 1) tail = h16;
    all += "|" + head + "::" + tail;
  }
  return Group(all);
}

std::string HostnameRegex() {
  // Labels that begin with xn-- are encoded in punycode, which is not checked, hence refused.
  const std::string alnum = "[0-9A-Za-z]";
  const std::string any = "[0-9A-Za-z-]";
  const std::string tail = "(?:" + any + "{0,61}" + alnum + ")?";
  const std::string label = "(?:[0-9A-WYZa-wyz]" + tail + "|[Xx](?:[0-9A-MO-Za-mo-z]" +
                            "(?:" + any + "{0,60}" + alnum + ")?|-" + any + "{0,60}" + alnum +
                            "|[Nn](?:" + alnum + "(?:" + any + "{0,59}" + alnum + ")?|-" + alnum +
                            "(?:" + any + "{0,58}" + alnum + ")?)?)?)";
  return label + "(?:\\." + label + ")*";
}

std::string EmailRegex() {
  const std::string atom = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+";
  const std::string quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
  return "(?:" + atom + "(?:\\." + atom + ")*|" + quoted + ")@(?:" + HostnameRegex() + "|\\[" +
         Ipv4Regex() + "\\]|\\[IPv6:" + Ipv6Regex() + "\\])";
}

// --- URIs (RFC 3986) and IRIs (RFC 3987) ---

struct UriCharacters {
  std::string unreserved;  // the inside of a class
  std::string in_query;    // more in queries
};

UriCharacters AsciiCharacters() { return {.unreserved = "0-9A-Za-z._~\\-", .in_query = ""}; }
UriCharacters UnicodeCharacters() {
  std::string more = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";
  for (int plane = 1; plane <= 14; ++plane) {
    more +=
        fmt::format("\\u{{{:X}{}}}-\\u{{{:X}FFFD}}", plane, plane == 14 ? "1000" : "0000", plane);
  }
  return {.unreserved = "0-9A-Za-z._~\\-" + more,
          .in_query = "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"};
}

// URIs, and with `relative` references too.
std::string UriRegex(const UriCharacters& characters, bool relative) {
  const std::string encoded = "%[0-9A-Fa-f]{2}";
  const std::string delimiters = "!$&'()*+,;=";
  const std::string plain = characters.unreserved + delimiters;
  const std::string character = "(?:[" + plain + ":@]|" + encoded + ")";
  const std::string user = "(?:[" + plain + ":]|" + encoded + ")*@";
  const std::string host = "(?:\\[(?:" + Ipv6Regex() +
                           "|[Vv][0-9A-Fa-f]+\\.[0-9A-Za-z._~!$&'()*+,;=:-]+" + ")\\]|(?:[" +
                           plain + "]|" + encoded + ")*)";
  const std::string path = "(?:/" + character + "*)*";
  const std::string authority = "//(?:" + user + ")?" + host + "(?::[0-9]*)?" + path;
  const std::string absolute = "/(?:" + character + "+" + path + ")?";
  const std::string rootless = character + "+" + path;
  const std::string tail = "(?:\\?(?:[" + plain + ":@/?" + characters.in_query + "]|" + encoded +
                           ")*)?(?:#(?:[" + plain + ":@/?]|" + encoded + ")*)?";
  const std::string full =
      "[A-Za-z][0-9A-Za-z+.\\-]*:(?:" + authority + "|" + absolute + "|" + rootless + ")?" + tail;
  if (!relative) return full;
  const std::string no_colon = "(?:[" + plain + "@]|" + encoded + ")+" + path;
  return "(?:" + full + "|(?:" + authority + "|" + absolute + "|" + no_colon + ")?" + tail + ")";
}

std::string UriTemplateRegex() {
  const std::string encoded = "%[0-9A-Fa-f]{2}";
  const std::string character = "(?:[0-9A-Za-z_]|" + encoded + ")";
  const std::string name = character + "(?:\\.?" + character + ")*";
  const std::string variable = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  return "(?:[^\\x00-\\x20\"%<>\\\\^`{|}\\x7F-\\x9F]|" + encoded + "|\\{[+#./;?&]?" + variable +
         "(?:," + variable + ")*\\})*";
}

std::string JsonPointerRegex() { return "(?:/(?:[^~/]|~[01])*)*"; }

// --- Formats of pydantic ---

// A UUID of one version, of the variant of RFC 9562.
std::string UuidRegex(int version) {
  return fmt::format(
      "[0-9A-Fa-f]{{8}}-[0-9A-Fa-f]{{4}}-{}[0-9A-Fa-f]{{3}}-[89ABab][0-9A-Fa-f]{{3}}-"
      "[0-9A-Fa-f]{{12}}",
      version);
}

// `more`: the characters beside letters and digits.
std::string Base64Regex(const std::string& more) {
  const std::string digit = "[0-9A-Za-z" + more + "]";
  return "(?:" + digit + "{4})*(?:" + digit + "{2}==|" + digit + "{3}=)?";
}

using StringFormats = std::map<std::string, StringFormat, std::less<>>;

StringFormats MakeStringFormats() {
  constexpr std::uint32_t kMaxHostname = 253;
  StringFormats formats = {
      {"date-time", {DateRegex() + "[Tt]" + TimeRegex()}},
      {"date", {DateRegex()}},
      {"time", {TimeRegex()}},
      {"duration", {DurationRegex()}},
      {"email", {EmailRegex()}},
      {"hostname", {HostnameRegex(), kMaxHostname}},
      {"ipv4", {Ipv4Regex()}},
      {"ip-address", {Ipv4Regex()}},
      {"ipv6", {Ipv6Regex()}},
      {"uuid", {"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"}},
      {"uri", {UriRegex(AsciiCharacters(), false)}},
      {"uri-reference", {UriRegex(AsciiCharacters(), true)}},
      {"iri", {UriRegex(UnicodeCharacters(), false)}},
      {"iri-reference", {UriRegex(UnicodeCharacters(), true)}},
      {"uri-template", {UriTemplateRegex()}},
      {"json-pointer", {JsonPointerRegex()}},
      {"relative-json-pointer", {"(?:0|[1-9][0-9]*)(?:#|" + JsonPointerRegex() + ")"}},
      {"regex", {.write = RegexFormat}},
      {"byte", {Base64Regex("+/")}},
      {"base64", {Base64Regex("+/")}},
      {"base64url", {Base64Regex("_\\-")}},
  };
  for (int version = 1; version <= 8; ++version) {
    formats[fmt::format("uuid{}", version)] = {UuidRegex(version)};
  }
  return formats;
}

}  // namespace

const StringFormat* FindStringFormat(std::string_view name) {
  static const StringFormats formats = MakeStringFormats();
  const auto found = formats.find(name);
  return found == formats.end() ? nullptr : &found->second;
}

}  // namespace fathom::constraint
