// The server as this page uses it: /v1/models, /v1/chat/completions, /metrics.

import {contentOf} from './attachments.js';
import {NUMBERS, isRight} from './settings.js';

class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;  // of HTTP; 0: none
  }
}

function headersFor(key) {
  return key ? {'Authorization': `Bearer ${key}`} : {};
}

async function errorOf(response) {
  let message = '';
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not an answer of ours; the status has to do.
  }
  if (response.status === 401) message ||= 'The server asks for an API key (settings).';
  return new ServerError(response.status,
                         message || `The server answered with status ${response.status}.`);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError(0, 'The server cannot be reached.');
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

// {name, description}; the description is undefined where the server has none.
export async function fetchModels(key) {
  const response = await request('/v1/models', {headers: headersFor(key)});
  return (await response.json()).data.map(
    (model) => ({name: model.id, description: model.description}));
}

// {running, waiting}: requests; undefined where the server does not say.
export async function fetchLoad(key) {
  const text = await (await request('/metrics', {headers: headersFor(key)})).text();
  const value = (name) => {
    const match = new RegExp(`^${name}(?:\\{[^}]*\\})? ([\\d.]+)`, 'm').exec(text);
    return match ? Number(match[1]) : undefined;
  };
  return {running: value('fathom_running'), waiting: value('fathom_waiting')};
}

// The data of server-sent events.
async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data:')) yield line.slice(5).trim();
    }
  }
}

// The body of a request for the answer that follows `messages`; the model goes on with the last one
// if that is its own.
export function chatBody(model, settings, messages) {
  const body = {model, messages: [], stream: true,
                stream_options: {include_usage: true, continuous_usage_stats: true}};
  if (settings.system.trim()) body.messages.push({role: 'system', content: settings.system});
  for (const message of messages) {
    const sent = {role: message.role,
                  content: message.role === 'user' ? contentOf(message) : message.text};
    // The server knows when the model is to see it again.
    if (message.reasoning) sent.reasoning_content = message.reasoning;
    body.messages.push(sent);
  }
  const last = body.messages[body.messages.length - 1];
  if (last.role === 'assistant') {
    last.prefix = true;
    body.continue_reasoning = true;  // if that is where it ended
  }
  if (settings.thinking === 'off') body.thinking = {type: 'disabled'};
  if (settings.thinking === 'high' || settings.thinking === 'max') {
    body.reasoning_effort = settings.thinking;
  }
  for (const name of Object.keys(NUMBERS)) {
    if (settings[name].trim() && isRight(name, settings[name])) body[name] = Number(settings[name]);
  }
  return body;
}

// The chunks of an answer, until the server says that it is whole. Throws ServerError, also for an
// answer that breaks off, and AbortError.
export async function* chatChunks(body, key, signal) {
  const response = await request('/v1/chat/completions', {
    method: 'POST', signal, body: JSON.stringify(body),
    headers: {'Content-Type': 'application/json', ...headersFor(key)},
  });
  try {
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError(response.status, chunk.error.message);
      yield chunk;
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ServerError) throw error;
  }
  throw new ServerError(0, 'The connection broke off.');
}
