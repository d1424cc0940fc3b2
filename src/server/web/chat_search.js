// Search in chats.

function textsOf(chat) {
  return [chat.title, ...chat.messages.map((message) => message.text)];
}

// Whether the title and the messages as they are shown have all words of the query.
export function matches(chat, query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const texts = textsOf(chat).map((text) => text.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)));
}
