/**
 * Signs in to the console and opens its event stream with the session cookie, as a browser does.
 */
import { callRoute } from './calls.ts';

/** The cookie that a reply sets, in the form in which a browser sends it back. */
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

export async function openStreamWithCookie(url: string, cookie: string): Promise<CookieStream> {
  const abort = new AbortController();
  const reply = await fetch(`${url}/v1/stream`, { headers: { cookie }, signal: abort.signal });
  if (reply.status !== 200 || !reply.body) throw new Error(`no stream: ${reply.status}`);
  let text = '';
  let hasEnded = false;
  const read = async (body: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
  };
  // When the server closes the connection, reading ends with an error. Only the end matters here.
  void read(reply.body)
    .catch(() => {})
    .finally(() => {
      hasEnded = true;
    });
  return { text: () => text, ended: () => hasEnded, close: () => abort.abort() };
}
