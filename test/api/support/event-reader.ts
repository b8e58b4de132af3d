/** Reads and stores server-sent events as a browser would. */
import { until } from '../../support/until.ts';

export interface StreamEvent {
  id: string | null;
  name: string;
  data: Record<string, unknown>;
}

export interface EventReader {
  events: StreamEvent[];
  comments: string[];
  /** The cursor a browser would resume from. */
  lastId(): string;
  ended(): boolean;
  waitFor(what: string, fits: (event: StreamEvent) => boolean, seconds?: number): Promise<StreamEvent>;
  close(): Promise<void>;
}

export async function openEvents(url: string, token: string, query = '', last_event_id?: string): Promise<EventReader> {
  const abort = new AbortController();
  const reply = await fetch(`${url}/v1/stream${query}`, {
    headers: { authorization: `Bearer ${token}`, ...(last_event_id && { 'last-event-id': last_event_id }) },
    signal: abort.signal,
  });
  if (reply.status !== 200 || !reply.body) throw new Error(`no stream: ${reply.status} ${await reply.text()}`);
  const events: StreamEvent[] = [];
  const comments: string[] = [];
  let last = last_event_id ?? '';
  let ended = false;

  const take = (block: string) => {
    const fields = block.split('\n').map((line) => {
      const cut = line.indexOf(':');
      return [line.slice(0, cut), line.slice(cut + 1).trimStart()] as const;
    });
    for (const [name, value] of fields) if (name === '') comments.push(value);
    const of = (name: string) => fields.find(([key]) => key === name)?.[1];
    const id = of('id') ?? null;
    if (id !== null) last = id;
    const data = of('data');
    if (data !== undefined) events.push({ id, name: of('event') ?? 'message', data: JSON.parse(data) });
  };

  const reading = (async () => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of reply.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) take(block);
    }
  })()
    .catch(() => undefined)
    .finally(() => {
      ended = true;
    });

  return {
    events,
    comments,
    lastId: () => last,
    ended: () => ended,
    waitFor: (what, fits, seconds = 60) => until(what, () => events.find(fits), { seconds }),
    async close() {
      abort.abort();
      await reading;
    },
  };
}

export const facts = (reader: EventReader): string[] =>
  reader.events.filter(({ name }) => name === 'evidence').map(({ data }) => String(data.cursor));
