// The settings that a chat may have for its requests, and the values that the server takes.

// `empty`: what holds while the field is empty.
export const NUMBERS = {
  max_tokens: {label: 'Max. tokens', min: 1, isWhole: true, empty: 'no limit'},
  temperature: {label: 'Temperature', min: 0, max: 2},
  top_p: {label: 'Top p', above: 0, max: 1},
  top_k: {label: 'Top k', min: -1, isWhole: true},
  min_p: {label: 'Min p', min: 0, max: 1},
  repetition_penalty: {label: 'Repetition penalty', min: 0.01, max: 100},
  presence_penalty: {label: 'Presence penalty', min: -2, max: 2},
  frequency_penalty: {label: 'Frequency penalty', min: -2, max: 2},
  // Numbers of JavaScript are exact up to here.
  seed: {label: 'Seed', min: -Number.MAX_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER,
         isWhole: true, empty: 'random'},
};

const DEFAULT_SETTINGS = {
  system: '', thinking: '', ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, '']))};

const TEXTS = {system: null, thinking: ['', 'off', 'high', 'max']};  // null: any

// Which values a field takes, in words.
export function rangeText({min, above, max, isWhole}) {
  const kind = isWhole ? 'a whole number' : 'a number';
  if (max === Number.MAX_SAFE_INTEGER) return kind;
  const low = above === undefined ? `${kind} from ${min}` : `${kind} above ${above}`;
  return max === undefined ? low : `${low} ${above === undefined ? 'to' : 'up to'} ${max}`;
}

// Whether the server takes what was typed. An empty field is not sent.
export function isRight(name, text) {
  if (name in TEXTS) return TEXTS[name]?.includes(text) ?? true;
  if (text.trim() === '') return true;
  const {min, above, max, isWhole} = NUMBERS[name];
  const value = Number(text);
  return Number.isFinite(value) && !(value < min) && !(value <= above) && !(value > max) &&
      (!isWhole || Number.isSafeInteger(value));
}

// The settings among `values`; those that are missing or wrong are as a new chat has them.
export function readSettings(values) {
  const settings = {...DEFAULT_SETTINGS};
  for (const name of Object.keys(settings)) {
    const text = values?.[name];
    if (typeof text === 'string' && isRight(name, text)) settings[name] = text;
  }
  return settings;
}
