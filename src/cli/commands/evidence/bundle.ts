/** `slipway bundle`: writes one redacted archive about an incident, to attach to a ticket. */
import { now } from '../../../base/clock.ts';
import { createTarGz, type Entry } from '../../../base/files/tar.ts';
import { createRedactor, type Redactor, redactionMark } from '../../../base/redaction/redact.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveThing } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { type Since, sinceOption, toMoment } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { writeNewFile } from '../../terminal/write-new-file.ts';
import { targetKindOf } from '../../wait/subject.ts';
import { explainRefusal, type Part, parts, type Subjects } from './bundle-parts.ts';

interface ListedFile {
  name: string;
  says: string;
  bytes: number;
  /** True if some lines were left out. */
  cut: boolean;
  /** Why the file is missing; null if it is present. */
  missing: string | null;
}

interface Bundle {
  archive: Buffer;
  listed: ListedFile[];
}

/** Looks up the ids of related things that the caller may see. */
async function fetchSubjects(session: Session, id: string): Promise<Omit<Subjects, 'since'>> {
  const unknown = { id, node_id: null, allocation_id: null, workflow_id: null, pool: null };
  const kind = targetKindOf(id);
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
  return as_request ? unknown : fetchSubjects(session, (await resolveThing(session, id)).id);
}

/** Environment variables may hold any secret, so every value is redacted. */
function redactEnvironment(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redactEnvironment);
  if (typeof value !== 'object' || value === null) return value;
  const redactValues = (env: object) => Object.fromEntries(Object.keys(env).map((name) => [name, redactionMark]));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === 'env' && typeof inner === 'object' && inner !== null ? redactValues(inner) : redactEnvironment(inner),
    ]),
  );
}

const isLines = (content: object): content is { lines: unknown[]; cut: boolean } =>
  'lines' in content && 'cut' in content;

function bodyOf(content: object, redact: Redactor): Buffer {
  const clean = (value: unknown) => redact.value(redactEnvironment(value));
  // Redacts all lines together: a private key spans several of them.
  const text = isLines(content)
    ? (clean(content.lines) as unknown[]).map((line) => `${JSON.stringify(line)}\n`).join('')
    : `${JSON.stringify(clean(content), null, 2)}\n`;
  return Buffer.from(text);
}

async function fetchEntry(
  part: Part,
  session: Session,
  subjects: Subjects,
  redact: Redactor,
): Promise<[Entry | null, ListedFile]> {
  const { name, says } = part;
  const missingFile = (missing: string): [null, ListedFile] => [null, { name, says, bytes: 0, cut: false, missing }];
  try {
    const content = await part.fetch(session, subjects);
    if (content === null) return missingFile('there is none');
    const body = bodyOf(content, redact);
    return [
      { name, body },
      { name, says, bytes: body.length, cut: isLines(content) && content.cut, missing: null },
    ];
  } catch (error) {
    return missingFile(redact.text(explainRefusal(error)));
  }
}

/** An archive limits the length of a path. */
const maxFolderIdLength = 48;

async function makeBundle(
  session: Session,
  id: string,
  { since, versions }: { since: string | null; versions: Record<string, string> },
): Promise<Bundle> {
  const { token } = session.connection;
  const redact = createRedactor([], token ? [token] : []);
  const subjects = { ...(await fetchSubjects(session, id)), since };
  const at = now(session.clock);
  const entries: Entry[] = [];
  const listed: ListedFile[] = [];
  for (const part of parts) {
    const [entry, file] = await fetchEntry(part, session, subjects, redact);
    if (entry) entries.push(entry);
    listed.push(file);
  }
  const origin = { made_at: at.toISOString(), correlation_id: session.correlation_id, server: session.server };
  const contents = { ...origin, ...subjects, versions, files: listed };
  const first = { name: 'bundle.json', body: bodyOf(contents, redact) };
  const folder = `slipway-${id.replaceAll(/[^\w.-]/g, '-').slice(0, maxFolderIdLength)}`;
  const all = [first, ...entries].map((entry) => ({ ...entry, name: `${folder}/${entry.name}` }));
  return { archive: createTarGz(all, at), listed };
}

interface Options {
  output?: string;
  since?: Since;
}

const ownerOnly = 0o600;
const nameColumns = 22;

const formatBytes = (bytes: number) => (bytes < 10_240 ? `${bytes} B` : `${Math.round(bytes / 1024)} KB`);

export const makeBundleCommand: MakeCommand = (cli) =>
  new SlipwayCommand('bundle')
    .description(
      'Write one redacted archive to attach to a ticket: timeline, logs, explanation, versions and settings.',
    )
    .argument('<id>', 'a node, an allocation, an operation or a correlation id')
    .option('-o, --output <file>', 'the file to write; default slipway-ID-TIME.tar.gz')
    .addOption(sinceOption())
    .examples('slipway bundle node_…', 'slipway bundle alloc_… -o incident.tar.gz')
    .action(
      cli.run<Options>(async (session, { output, since }, [id = '']) => {
        const versions = { node: process.version, platform: `${process.platform} ${process.arch}` };
        const { archive, listed } = await makeBundle(session, id, {
          since: toMoment(since, session.clock) ?? null,
          versions,
        });
        const stamp = now(session.clock)
          .toISOString()
          .replaceAll(/[-:]|\.\d+/g, '');
        const path = output ?? `slipway-${id.replaceAll(/[^\w.-]/g, '-')}-${stamp}.tar.gz`;
        writeNewFile(path, archive, 'bundle', ownerOnly);
        const { out } = session.terminal;
        const { paint } = fitOf(out);
        if (session.json) printJson(out, { path, bytes: archive.length, files: listed });
        else
          printLines(out, [
            `${paint('good', '✔')} ${path}, ${formatBytes(archive.length)}`,
            ...listed.map(({ name, says, bytes, cut, missing }) => {
              const details = missing ?? `${formatBytes(bytes)}${cut ? ', incomplete' : ''}, ${says}`;
              return `  ${paint(missing ? 'quiet' : undefined, `${name.padEnd(nameColumns)} ${details}`)}`;
            }),
            '  Secrets are redacted. Check the archive yourself before you share it.',
          ]);
        return undefined;
      }),
    );
