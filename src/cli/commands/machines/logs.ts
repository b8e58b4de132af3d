/** `slipway logs`: shows the log of every instance of a machine, even after the machine is gone. */
import { InvalidArgumentError } from 'commander';
import { pause } from '../../../base/clock.ts';
import type { LogLine, LogPage } from '../../../contract/node.ts';
import { readDiagnostics } from '../../../lifecycle/findings/diagnostics.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { isAllocation, resolveNode } from '../../connection/resolve-id.ts';
import { isTransient, type Session } from '../../connection/session.ts';
import { logLines, noHeading } from '../../render/evidence/evidence.ts';
import { momentInFull } from '../../render/text/duration.ts';
import { printable } from '../../render/text/text.ts';
import { Interrupted } from '../../terminal/failure.ts';
import { count } from '../../terminal/option-values.ts';
import { fitOf, printJsonLine, printLines } from '../../terminal/terminal.ts';

interface Options {
  follow?: boolean;
  tail: number;
  grep?: string;
}

/** Narrows the lines: a reused machine also has the lines of other allocations. */
interface LogFilter {
  q?: string;
  allocation_id?: string;
  instance?: string;
}

/** The server answers a follow call after at most about 24 s. */
const followTimeoutSeconds = 60;
const largestPage = 500;
const pauseMs = 1_000;

function tail(text: string): number {
  const lines = count(text);
  if (lines > largestPage)
    throw new InvalidArgumentError(`Expected at most ${largestPage}. Use --grep to find older lines.`);
  return lines;
}

type PrintLogLines = (lines: LogLine[]) => void;

/** Continues after the cursor until Ctrl-C, also across a server restart. */
async function followLogs(session: Session, id: string, filter: LogFilter, from: string | null, show: PrintLogLines) {
  let cursor = from;
  let isLost = false;
  while (!session.signal.aborted) {
    try {
      const query = {
        follow: true,
        limit: largestPage,
        ...(cursor && { cursor }),
        ...filter,
      };
      const options = { timeout_seconds: followTimeoutSeconds, no_retry: true } as const;
      const page = await session.call('node-logs', { params: { id }, query }, options);
      show(page.items);
      isLost = false;
      // Without a cursor, the next call would return the same page at once.
      if (page.next_cursor === null) await pause(session.clock, pauseMs, session.signal);
      cursor = page.next_cursor ?? cursor;
    } catch (error) {
      if (error instanceof Interrupted) return;
      if (!isTransient(error)) throw error;
      const { err } = session.terminal;
      if (!isLost) printLines(err, [err.paint('warn', '! connection lost, retrying')]);
      isLost = true;
      await pause(session.clock, pauseMs, session.signal);
    }
  }
}

/** Reads the last lines. Prints a notice if a search takes several calls. */
async function readTail(session: Session, id: string, filter: LogFilter, maxLines: number): Promise<LogPage> {
  const { err } = session.terminal;
  const read = (limit: number, before?: string) =>
    session.call('node-logs', { params: { id }, query: { tail: true, limit, ...(before && { before }), ...filter } });
  const newest = await read(maxLines);
  let [items, continue_at] = [newest.items, newest.continue_at];
  if (continue_at && items.length < maxLines) printLines(err, ['Searching older lines. Press Ctrl-C to stop.']);
  while (continue_at && items.length < maxLines) {
    const older = await read(maxLines - items.length, continue_at);
    items = [...older.items, ...items];
    continue_at = older.continue_at;
  }
  return { ...newest, items, continue_at };
}

/** Prints each line once, even if pages overlap. */
function makeLogPrinter(session: Session): PrintLogLines {
  const { out } = session.terminal;
  const lastSeqs = new Map<string, number>();
  let heading = noHeading;
  return (items) => {
    const newLines = items.filter(({ node_instance_id, seq }) => seq > (lastSeqs.get(node_instance_id) ?? 0));
    for (const { node_instance_id, seq } of newLines) lastSeqs.set(node_instance_id, seq);
    if (session.json) for (const line of newLines) printJsonLine(out, line);
    else {
      const rendered = logLines(newLines, heading, fitOf(out));
      heading = rendered.heading;
      printLines(out, rendered.lines);
    }
  };
}

/** Returns the log lines in the last diagnostics that the provider collected from the machine. */
async function fetchLinesFromProvider(
  session: Session,
  node_id: string,
  { allocation_id, instance }: LogFilter,
): Promise<{ at: string; lines: LogLine[] } | undefined> {
  const subject = instance ? { node_instance_id: instance } : { node_id, ...(allocation_id && { allocation_id }) };
  const query = { ...subject, kind: 'evidence.frozen', layer: 'provider', order: 'newest' } as const;
  const page = await collect((paging) => session.call('timeline-get', { query: { ...query, ...paging } }), 1);
  const [fact] = page.items;
  if (!fact) return undefined;
  const node_instance_id = fact.node_instance_id ?? '';
  return {
    at: fact.at,
    lines: readDiagnostics(fact.data).lines.map((line, i) => ({ ...line, seq: i + 1, node_instance_id })),
  };
}

/** Names the filter, so that nothing is claimed about the other lines of the machine. */
const scopeOf = ({ allocation_id, instance }: LogFilter): string =>
  `${instance ? ` as instance ${instance}` : ''}${allocation_id ? ` for ${allocation_id}` : ''}`;

/** Prints the lines that the provider found on a machine that sent nothing. */
async function printFromProvider(session: Session, node_id: string, filter: LogFilter, { grep, tail }: Options) {
  const { out, err } = session.terminal;
  const scope = scopeOf(filter);
  const collected = await fetchLinesFromProvider(session, node_id, filter);
  const lines = (collected?.lines ?? []).filter(({ line }) => grep === undefined || line.includes(grep)).slice(-tail);
  if (collected && lines.length > 0) {
    const isFiltered = grep !== undefined || scope !== '';
    const what = isFiltered ? `sent no such lines${scope}` : 'sent nothing';
    const notice = `${node_id} ${what}. This was found on the machine (${momentInFull(collected.at)}):`;
    printLines(err, [err.paint('warn', notice)]);
    printLines(out, logLines(lines, noHeading, fitOf(out)).lines);
  } else if (grep) printLines(err, [`No line of ${node_id}${scope} contains ${printable(grep)}.`]);
  else
    printLines(err, [
      scope === '' ? `${node_id} has not logged anything yet.` : `${node_id} sent no lines${scope}.`,
      `See what its provider reports:  ${session.commandLine('diagnostics', node_id)}`,
    ]);
}

export const makeLogs: MakeCommand = (cli) =>
  new SlipwayCommand('logs')
    .description(
      'Show the logs of a node: its setup, its agent and its command, for every instance, even after the machine is gone.',
    )
    .argument(
      '<id>',
      'any id or name: a node, an instance, an operation or a request; for an allocation, the lines from its time on the machine',
    )
    .option('-f, --follow', 'continue with new lines until Ctrl-C')
    .option('--tail <n>', 'how many of the last lines to show', tail, 200)
    .option('-g, --grep <text>', 'only lines that contain this text')
    .examples('slipway logs node_… -f', 'slipway logs alloc_… --tail 50', 'slipway logs inst_…')
    .action(
      cli.run<Options>(async (session, options, [id = '']) => {
        const { node_id, node_instance_id, reference } = await resolveNode(session, id, 'there are no logs');
        const show = makeLogPrinter(session);
        const filter: LogFilter = {
          ...(options.grep && { q: options.grep }),
          ...(isAllocation(reference) && { allocation_id: reference.allocation_id }),
          ...(node_instance_id && { instance: node_instance_id }),
        };
        const page = await readTail(session, node_id, filter, options.tail);
        show(page.items);
        if (options.follow) await followLogs(session, node_id, filter, page.next_cursor, show);
        else if (page.items.length === 0 && !session.json) await printFromProvider(session, node_id, filter, options);
        return undefined;
      }),
    );
