// Search in chats.

function textsOf(chat) {
  return [chat.title, ...chat.messages.flatMap(
      ({text, files}) => [text, ...(files ?? []).map((file) => file.name)])];
}

// Whether the title, the messages as they are shown and the names of their files have all words of
// the query.
export function matches(chat, query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const texts = textsOf(chat).map((text) => text.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)));
}
