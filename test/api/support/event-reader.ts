/** Reads server-sent events as a browser would, and keeps them for the test. */
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
  waitFor(what: string, matches: (event: StreamEvent) => boolean, seconds?: number): Promise<StreamEvent>;
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
  let hasEnded = false;

  const readBlock = (block: string) => {
    const fields = block.split('\n').map((line) => {
      const cut = line.indexOf(':');
      return [line.slice(0, cut), line.slice(cut + 1).trimStart()] as const;
    });
    for (const [name, value] of fields) if (name === '') comments.push(value);
    const fieldOf = (name: string) => fields.find(([key]) => key === name)?.[1];
    const id = fieldOf('id') ?? null;
    if (id !== null) last = id;
    const data = fieldOf('data');
    if (data !== undefined) events.push({ id, name: fieldOf('event') ?? 'message', data: JSON.parse(data) });
  };

  const reading = (async () => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of reply.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) readBlock(block);
    }
  })()
    .catch(() => undefined)
    .finally(() => {
      hasEnded = true;
    });

  return {
    events,
    comments,
    lastId: () => last,
    ended: () => hasEnded,
    waitFor: (what, matches, seconds = 60) => until(what, () => events.find(matches), { seconds }),
    async close() {
      abort.abort();
      await reading;
    },
  };
}

/** The cursors of the received evidence, in the order received. */
export const evidenceCursors = (reader: EventReader): string[] =>
  reader.events.filter(({ name }) => name === 'evidence').map(({ data }) => String(data.cursor));
