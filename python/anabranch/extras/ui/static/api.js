// Requests to the server. The cookie with the token goes with each of them.

export class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.line = error.line;
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  const text = await answer.text();
  let error = { message: text.trim() || `the server answered ${answer.status}` };
  try {
    error = JSON.parse(text).error;
  } catch {
    // Plain text, such as a refusal.
  }
  throw new Refused(error);
}

function posted(address, document, signal) {
  const headers = { "Content-Type": "application/json" };
  return fetch(address, { method: "POST", headers, body: JSON.stringify(document), signal });
}

export async function get(address, query = {}) {
  const text = new URLSearchParams(query).toString();
  return (await checked(await fetch(text ? `${address}?${text}` : address))).json();
}

export async function post(address, document, signal) {
  return (await checked(await posted(address, document, signal))).json();
}

export async function postForBlob(address, document, signal) {
  return (await checked(await posted(address, document, signal))).blob();
}

// Each event of a run as it comes. Aborting the signal cancels the run.
export async function* events(document, signal) {
  yield* lines(await checked(await posted("api/run", document, signal)));
}

export async function* stored(query) {
  yield* lines(await checked(await fetch(`api/opened?${new URLSearchParams(query)}`)));
}

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}
