/** Console sessions, as a browser holds them. */
import { callRoute } from './calls.ts';

/** The cookie that a reply sets, in the form to send back. */
export const cookieOf = (headers: Headers): string => headers.getSetCookie()[0]?.split(';')[0] ?? '';

export async function signIn(url: string, token: string): Promise<string> {
  const { status, headers, text } = await callRoute(url, 'session-create', { body: { token } });
  if (status !== 201) throw new Error(`no session: ${status} ${text}`);
  return cookieOf(headers);
}

export interface CookieStream {
  text(): string;
  ended(): boolean;
  close(): void;
}

/** An event stream that a browser opened with its session. */
export async function openStreamBy(url: string, cookie: string): Promise<CookieStream> {
  const abort = new AbortController();
  const reply = await fetch(`${url}/v1/stream`, { headers: { cookie }, signal: abort.signal });
  if (reply.status !== 200 || !reply.body) throw new Error(`no stream: ${reply.status}`);
  let text = '';
  let ended = false;
  const read = async (body: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
  };
  // A stream that is cut off ends with an error here; only its end matters.
  void read(reply.body)
    .catch(() => {})
    .finally(() => {
      ended = true;
    });
  return { text: () => text, ended: () => ended, close: () => abort.abort() };
}
