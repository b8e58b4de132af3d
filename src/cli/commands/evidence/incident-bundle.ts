/** Makes an incident bundle: asks for every part, strikes out what is secret, and packs it with a list of what is in it. */
import { now } from '../../../base/clock.ts';
import { type Entry, packed } from '../../../base/files/tar.ts';
import { createRedactor, type Redactor, redactionMark } from '../../../base/redaction/redact.ts';
import type { Session } from '../../connection/session.ts';
import { namedThing } from '../../names/named-thing.ts';
import { kindOfId } from '../../wait/subject.ts';
import { type Part, parts, type Subjects, whyMissing } from './bundle-parts.ts';

export interface Listed {
  name: string;
  says: string;
  bytes: number;
  /** Older lines were left out. */
  cut: boolean;
  /** Why it is not there. */
  missing: string | null;
}

export interface Bundle {
  archive: Buffer;
  listed: Listed[];
}

/** The ids around the one that was named, as far as they are visible. */
export async function subjectsOf(session: Session, id: string): Promise<Omit<Subjects, 'since'>> {
  const unknown = { id, node_id: null, allocation_id: null, workflow_id: null, pool: null };
  const kind = kindOfId(id);
  if (kind === 'node') {
    const { node_id, allocation_id, workflow_id, pool } = await session.call('node-get', { params: { id } });
    return { id, node_id, allocation_id, workflow_id, pool };
  }
  if (kind === 'allocation') {
    const { allocation_id, node_id, workflow_id, pool } = await session.call('allocation-get', { params: { id } });
    return { id, node_id, allocation_id, workflow_id, pool };
  }
  if (kind === 'operation') {
    const { workflow_id, node_id, allocation_id } = await session.call('operation-get', { params: { id } });
    return { ...unknown, workflow_id, node_id, allocation_id };
  }
  const { as_request } = await session.call('thing-find', { query: { id } });
  return as_request ? unknown : subjectsOf(session, (await namedThing(session, id)).id);
}

/** Values of an environment are whatever somebody put there, so none of them is shown, whatever its name. */
function withoutEnvironment(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEnvironment);
  if (typeof value !== 'object' || value === null) return value;
  const hidden = (env: object) => Object.fromEntries(Object.keys(env).map((name) => [name, redactionMark]));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === 'env' && typeof inner === 'object' && inner !== null ? hidden(inner) : withoutEnvironment(inner),
    ]),
  );
}

const isLines = (asked: object): asked is { lines: unknown[]; cut: boolean } => 'lines' in asked && 'cut' in asked;

function bodyOf(asked: object, redact: Redactor): Buffer {
  const clean = (value: unknown) => redact.value(withoutEnvironment(value));
  // All lines at once: a key that is printed over several of them is known by their order alone.
  const text = isLines(asked)
    ? (clean(asked.lines) as unknown[]).map((line) => `${JSON.stringify(line)}\n`).join('')
    : `${JSON.stringify(clean(asked), null, 2)}\n`;
  return Buffer.from(text);
}

async function entryOf(
  part: Part,
  session: Session,
  about: Subjects,
  redact: Redactor,
): Promise<[Entry | null, Listed]> {
  const { name, says } = part;
  const absent = (missing: string): [null, Listed] => [null, { name, says, bytes: 0, cut: false, missing }];
  try {
    const asked = await part.ask(session, about);
    if (asked === null) return absent('there is none');
    const body = bodyOf(asked, redact);
    return [
      { name, body },
      { name, says, bytes: body.length, cut: isLines(asked) && asked.cut, missing: null },
    ];
  } catch (error) {
    return absent(redact.text(whyMissing(error)));
  }
}

export async function makeBundle(
  session: Session,
  id: string,
  { since, versions }: { since: string | null; versions: Record<string, string> },
): Promise<Bundle> {
  const { token } = session.connection;
  const redact = createRedactor([], token ? [token] : []);
  const about = { ...(await subjectsOf(session, id)), since };
  const at = now(session.clock);
  const entries: Entry[] = [];
  const listed: Listed[] = [];
  for (const part of parts) {
    const [entry, line] = await entryOf(part, session, about, redact);
    if (entry) entries.push(entry);
    listed.push(line);
  }
  const made = { made_at: at.toISOString(), correlation_id: session.correlation_id, server: session.server };
  const contents = { ...made, ...about, versions, files: listed };
  const first = { name: 'bundle.json', body: bodyOf(contents, redact) };
  const folder = `slipway-${id.replaceAll(/[^\w.-]/g, '-').slice(0, 48)}`;
  const all = [first, ...entries].map((entry) => ({ ...entry, name: `${folder}/${entry.name}` }));
  return { archive: packed(all, at), listed };
}
