/** `slipway export`: writes sealed evidence for a SIEM. A cursor resumes an earlier export. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import manifest from '../../../../package.json' with { type: 'json' };
import { type Clock, pause } from '../../../base/clock.ts';
import { cefLine } from '../../../contract/evidence/integrity/cef.ts';
import { type ExportRecord, jsonLine } from '../../../contract/evidence/integrity/export-record.ts';
import { syslogLine } from '../../../contract/evidence/integrity/syslog.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { streamChanges } from '../../connection/event-stream.ts';
import { isTransient, type Session } from '../../connection/session.ts';
import { CliFailure, Interrupted } from '../../terminal/failure.ts';
import { momentOrAgo, type Since, toMoment } from '../../terminal/option-values.ts';
import { printLines } from '../../terminal/terminal.ts';

type Format = 'jsonl' | 'cef' | 'syslog';
type From = { cursor: string } | Since;

interface Options {
  format: Format;
  since?: From;
  follow?: boolean;
  output: string;
}

/** Rows are sealed about one second after they are written, so each pass waits a little longer. */
const sealedAfterMs = 1_500;
/** The export polls this often even if no event arrives. */
const pollMs = 10_000;

const cursorOrTime = (text: string): From => {
  if (/^\d{1,20}-\d{1,19}$/.test(text)) return { cursor: text };
  try {
    return momentOrAgo(text);
  } catch {
    throw new InvalidArgumentError(
      'Expected a cursor like 918-17, a time ago like 15m, or a date and time with its zone, like 2026-01-31T14:00:00Z.',
    );
  }
};

function openWriter(output: string, out: { write(text: string): void }): { write(text: string): void; close(): void } {
  if (output === '-') return { write: (text) => out.write(text), close: () => {} };
  try {
    const file = openSync(output, 'a', 0o600);
    return { write: (text) => void writeSync(file, text), close: () => closeSync(file) };
  } catch (error) {
    throw new CliFailure('failed', `Cannot write to ${output}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name another file with --output.',
      cause: error,
    });
  }
}

const lineOf = (format: Format, record: ExportRecord, installation: string): string => {
  if (format === 'cef') return cefLine(record, manifest.version);
  return format === 'syslog' ? syslogLine(record, installation) : jsonLine(record);
};

function queryFrom(since: From | undefined, clock: Clock): Record<string, string> {
  if (!since) return {};
  return 'cursor' in since ? { since_cursor: since.cursor } : { since: toMoment(since, clock) ?? '' };
}

/** Writes all evidence that is sealed so far. Returns the cursor to continue from. */
async function exportSealed(
  session: Session,
  query: Record<string, string>,
  write: (records: ExportRecord[]) => void,
): Promise<{ next: string; records: number }> {
  let next = query;
  for (let records = 0; ; ) {
    const page = await session.call('evidence-export', { query: next });
    write(page.items as ExportRecord[]);
    records += page.items.length;
    next = { cursor: page.resume_cursor };
    if (page.next_cursor === null) return { next: page.resume_cursor, records };
  }
}

/**
 * Uses events only as a signal that there is new evidence. Reads them continuously, because the
 * server drops slow readers.
 */
async function followNewEvidence(
  session: Session,
  from: string,
  onWake: (cursor: string) => Promise<string>,
): Promise<void> {
  const { clock, signal } = session;
  let wake = Promise.withResolvers<void>();
  const open = (last: string, within: AbortSignal) => session.openStream({ topics: 'evidence' }, last, within);
  const listening = (async () => {
    for await (const _change of streamChanges({ clock, signal, open })) wake.resolve();
  })();
  let cursor = from;
  while (!signal.aborted) {
    await Promise.race([wake.promise, listening, pause(clock, pollMs, signal)]);
    wake = Promise.withResolvers();
    await pause(clock, sealedAfterMs, signal);
    if (signal.aborted) break;
    try {
      cursor = await onWake(cursor);
    } catch (error) {
      // The next pass continues from the same cursor once the server is back.
      if (!isTransient(error) && !(error instanceof Interrupted)) throw error;
    }
  }
  await listening;
}

export const makeExport: MakeCommand = (cli) =>
  new SlipwayCommand('export')
    .description(
      'Write sealed evidence for a SIEM: every row with its cursor, hash and place in the chain, and the checkpoints that sign them.',
    )
    .addOption(
      new Option('--format <format>', 'how each record is written')
        .choices(['jsonl', 'cef', 'syslog'])
        .default('jsonl'),
    )
    .addOption(
      new Option(
        '--since <from>',
        'start with the checkpoint that seals the first row after this cursor, or from this time on; it may include earlier rows',
      ).argParser(cursorOrTime),
    )
    .option('-f, --follow', 'continue with newly sealed evidence until Ctrl-C')
    .option('-o, --output <file>', 'append to this file; - for standard output', '-')
    .examples(
      'slipway export --output evidence.jsonl',
      'slipway export --format syslog --follow | nc siem.example 514',
      'slipway verify evidence.jsonl --public-key slipway.pem',
    )
    .action(
      cli.run<Options>(async (session, { format, since, follow, output }) => {
        const { installation } = await session.call('key-list', {});
        const { out, err } = session.terminal;
        const writer = openWriter(output, out);
        const write = (records: ExportRecord[]) => {
          if (records.length > 0)
            writer.write(`${records.map((record) => lineOf(format, record, installation)).join('\n')}\n`);
        };
        try {
          const exported = await exportSealed(session, queryFrom(since, session.clock), write);
          if (follow)
            await followNewEvidence(
              session,
              exported.next,
              async (cursor) => (await exportSealed(session, { cursor }, write)).next,
            );
          else if (output !== '-' && !session.json)
            printLines(err, [`${exported.records.toLocaleString('en')} records written to ${output}.`]);
        } finally {
          writer.close();
        }
        return undefined;
      }),
    );
