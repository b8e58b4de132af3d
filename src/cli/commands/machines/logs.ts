/** `slipway logs`: what a machine and its command wrote, every incarnation, also after it is gone. */
import { InvalidArgumentError } from 'commander';
import { pause } from '../../../base/clock.ts';
import type { LogLine, LogPage } from '../../../contract/node.ts';
import { readDiagnostics } from '../../../lifecycle/findings/diagnostics.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { isAllocation, nodeBehind } from '../../connection/resolve-id.ts';
import { isPassing, type Session } from '../../connection/session.ts';
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

/** Which lines are meant: a machine that is handed on has those of others as well. */
interface Asked {
  q?: string;
  allocation_id?: string;
  instance?: string;
}

/** The server holds a follow call open for half a minute; this leaves it time to answer. */
const followBoundSeconds = 60;
const largestPage = 500;
const pauseMs = 1_000;

function tail(text: string): number {
  const lines = count(text);
  if (lines > largestPage) throw new InvalidArgumentError(`At most ${largestPage}; --grep finds older lines.`);
  return lines;
}

type Show = (lines: LogLine[]) => void;

/** Reads on behind the cursor until Ctrl-C; a server that is restarted in between is waited for. */
async function followLogs(session: Session, id: string, asked: Asked, from: string | null, show: Show) {
  let cursor = from;
  let told = false;
  while (!session.signal.aborted) {
    try {
      const query = {
        follow: true,
        limit: largestPage,
        ...(cursor && { cursor }),
        ...asked,
      };
      const bound = { seconds: followBoundSeconds, impatient: true } as const;
      const page = await session.call('node-logs', { params: { id }, query }, bound);
      show(page.items);
      told = false;
      // Without a cursor the same page would come again at once.
      if (page.next_cursor === null) await pause(session.clock, pauseMs, session.signal);
      cursor = page.next_cursor ?? cursor;
    } catch (error) {
      if (error instanceof Interrupted) return;
      if (!isPassing(error)) throw error;
      const { err } = session.terminal;
      if (!told) printLines(err, [err.paint('warn', '! connection lost, trying again')]);
      told = true;
      await pause(session.clock, pauseMs, session.signal);
    }
  }
}

/** The last lines. A search through a long log takes several calls, and the person is told that it goes on. */
async function readTail(session: Session, id: string, asked: Asked, most: number): Promise<LogPage> {
  const { err } = session.terminal;
  const read = (limit: number, before?: string) =>
    session.call('node-logs', { params: { id }, query: { tail: true, limit, ...(before && { before }), ...asked } });
  const newest = await read(most);
  let [items, continue_at] = [newest.items, newest.continue_at];
  if (continue_at && items.length < most) printLines(err, ['Searching older lines. Ctrl-C ends it.']);
  while (continue_at && items.length < most) {
    const older = await read(most - items.length, continue_at);
    items = [...older.items, ...items];
    continue_at = older.continue_at;
  }
  return { ...newest, items, continue_at };
}

/** Lines that were shown are not shown again, whichever page they come with. */
function shower(session: Session): Show {
  const { out } = session.terminal;
  const last = new Map<string, number>();
  let heading = noHeading;
  return (items) => {
    const fresh = items.filter(({ node_instance_id, seq }) => seq > (last.get(node_instance_id) ?? 0));
    for (const { node_instance_id, seq } of fresh) last.set(node_instance_id, seq);
    if (session.json) for (const line of fresh) printJsonLine(out, line);
    else {
      const rendered = logLines(fresh, heading, fitOf(out));
      heading = rendered.heading;
      printLines(out, rendered.lines);
    }
  };
}

/** What a machine wrote that never got as far as sending it, as its provider found it when the machine was given up. */
async function leftOnMachine(
  session: Session,
  node_id: string,
  { allocation_id }: Asked,
): Promise<{ at: string; lines: LogLine[] } | undefined> {
  const whose = { node_id, ...(allocation_id && { allocation_id }) };
  const query = { ...whose, kind: 'evidence.frozen', layer: 'provider', order: 'newest' } as const;
  const found = await collect((paging) => session.call('timeline-get', { query: { ...query, ...paging } }), 1);
  const [fact] = found.items;
  if (!fact) return undefined;
  const node_instance_id = fact.node_instance_id ?? '';
  return {
    at: fact.at,
    lines: readDiagnostics(fact.data).lines.map((line, i) => ({ ...line, seq: i + 1, node_instance_id })),
  };
}

/** A person looks here first; where nothing was sent, what was found on the machine is the answer. */
async function tellLeft(session: Session, node_id: string, asked: Asked, { grep, tail }: Options): Promise<void> {
  const { out, err } = session.terminal;
  const left = await leftOnMachine(session, node_id, asked);
  const lines = (left?.lines ?? []).filter(({ line }) => grep === undefined || line.includes(grep)).slice(-tail);
  if (left && lines.length > 0) {
    const found = `${node_id} sent nothing. This was found on the machine (${momentInFull(left.at)}):`;
    printLines(err, [err.paint('warn', found)]);
    printLines(out, logLines(lines, noHeading, fitOf(out)).lines);
  } else if (grep) printLines(err, [`No line of ${node_id} contains ${printable(grep)}.`]);
  else
    printLines(err, [
      `${node_id} has not written anything yet.`,
      `What its provider keeps of it:  ${session.commandLine('diagnostics', node_id)}`,
    ]);
}

export const makeLogs: MakeCommand = (cli) =>
  new SlipwayCommand('logs')
    .description(
      'Show the logs of a node: its set-up, its agent and its command, every instance, kept after it is gone.',
    )
    .argument(
      '<id>',
      'any id or name: a node, one instance of it, an operation or request on it; of an allocation, what was written while it had the machine',
    )
    .option('-f, --follow', 'go on with new lines until Ctrl-C')
    .option('--tail <n>', 'how many of the last lines to show', tail, 200)
    .option('-g, --grep <text>', 'only lines that contain this')
    .examples('slipway logs node_… -f', 'slipway logs alloc_… --tail 50', 'slipway logs inst_…')
    .action(
      cli.run<Options>(async (session, options, [id = '']) => {
        const { node_id, node_instance_id, through } = await nodeBehind(session, id, 'there are no logs');
        const show = shower(session);
        const asked: Asked = {
          ...(options.grep && { q: options.grep }),
          ...(isAllocation(through) && { allocation_id: through.allocation_id }),
          ...(node_instance_id && { instance: node_instance_id }),
        };
        const page = await readTail(session, node_id, asked, options.tail);
        show(page.items);
        if (options.follow) await followLogs(session, node_id, asked, page.next_cursor, show);
        else if (page.items.length === 0 && !session.json) await tellLeft(session, node_id, asked, options);
        return undefined;
      }),
    );
