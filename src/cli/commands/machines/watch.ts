/** `slipway watch`: the fleet as a live table, or the progress of one thing. */
import { RequestRefused } from '../../../contract/client.ts';
import type { Operation } from '../../../contract/operation.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { streamChanges } from '../../connection/event-stream.ts';
import { collect } from '../../connection/pages.ts';
import { isPassing, type Session } from '../../connection/session.ts';
import { readWireEvent } from '../../connection/wire-event.ts';
import { namedThing } from '../../names/named-thing.ts';
import { eventLine } from '../../render/machines/event-line.ts';
import { fleetLines } from '../../render/machines/fleet.ts';
import { openLiveView } from '../../terminal/live-view.ts';
import { timeoutWaitOption } from '../../terminal/option-values.ts';
import { fitOf, printJsonLine, printLines } from '../../terminal/terminal.ts';
import { type Fleet, fleetOf, learnFleet } from '../../wait/fleet.ts';
import { look } from '../../wait/follow.ts';
import { nothingKnown } from '../../wait/subject.ts';
import { waitUntilSettled } from '../../wait/wait.ts';
import { listAllocations } from '../allocations/allocations.ts';
import { listNodes } from './nodes.ts';

interface Options {
  pool?: string;
  timeoutWait?: number;
}

const mostShown = 5_000;
const atWork = ['queued', 'running', 'cancelling'] as const;

async function wholeFleet(session: Session, { pool }: Options): Promise<Fleet> {
  const filter = { limit: mostShown, ...(pool && { pool }) };
  const [nodes, allocations, ...operations] = await Promise.all([
    listNodes(session, filter),
    listAllocations(session, filter),
    ...atWork.map((status) =>
      collect<Operation>((paging) => session.call('operation-list', { query: { status, ...paging } }), mostShown),
    ),
  ]);
  return fleetOf(
    nodes.items,
    allocations.items,
    operations.flatMap(({ items }) => items),
  );
}

const changesOf = (session: Session, { pool }: Options) =>
  streamChanges({
    clock: session.clock,
    signal: session.signal,
    open: (last, signal) =>
      session.openStream({ topics: 'nodes,allocations,operations', ...(pool && { pool }) }, last, signal),
  });

/** A stream that is refused will be refused again; one that is only gone comes back. */
const giveUpIfRefused = (because: unknown) => {
  if (because instanceof RequestRefused && !isPassing(because)) throw because;
};

async function watchTable(session: Session, options: Options): Promise<void> {
  const { clock } = session;
  const { out } = session.terminal;
  let fleet = await wholeFleet(session, options);
  let connection = 'connecting';
  const compose = () =>
    fleetLines(fleet, { server: session.server, connection, nowMs: clock.nowMs(), rows: out.rows() }, fitOf(out));
  const view = openLiveView(out, clock, compose);
  try {
    for await (const change of changesOf(session, options)) {
      if (change.type === 'event') {
        const news = readWireEvent(change.event);
        if (news) learnFleet(fleet, news);
      } else if (change.type === 'open') {
        connection = 'live';
        fleet = await wholeFleet(session, options);
      } else if (change.type === 'closed') {
        giveUpIfRefused(change.because);
        connection = 'connection lost, trying again';
      }
      view.touch();
    }
  } finally {
    view.close();
  }
}

async function watchLines(session: Session, options: Options): Promise<void> {
  const { out, err } = session.terminal;
  let lost = false;
  // A thing is told again with every fact about it; what a person reads of it may be the same as before.
  const told = new Map<string, string>();
  if (!session.json) printLines(err, [err.paint('quiet', 'Watching: one line for each change; Ctrl-C ends.')]);
  for await (const change of changesOf(session, options)) {
    if (change.type === 'closed') {
      giveUpIfRefused(change.because);
      if (!lost) printLines(err, [err.paint('warn', '! connection lost, trying again')]);
      lost = true;
    } else lost = false;
    const news = change.type === 'event' ? readWireEvent(change.event) : null;
    if (change.type !== 'event' || !news) continue;
    const { id, event, data } = change.event;
    if (session.json) printJsonLine(out, { event, cursor: id, data: JSON.parse(data) });
    else {
      const { id: about, at, text } = eventLine(news);
      if (text !== told.get(about)) printLines(out, [`${at}  ${text}`]);
      told.set(about, text);
    }
  }
}

async function watchOne(session: Session, word: string, options: Options) {
  const { kind, id } = await namedThing(session, word);
  const target = { kind, id };
  // Asked for once before anything is drawn, so that a mistyped id is an error and not a wait.
  const known = await look(session, target, nothingKnown, session.signal);
  const { exit, subject } = await waitUntilSettled(session, {
    target,
    goal: 'settle',
    known,
    timeout_seconds: options.timeoutWait ?? null,
  });
  if (session.json) printJsonLine(session.terminal.out, subject);
  return exit;
}

export const makeWatch: MakeCommand = (cli) =>
  new SlipwayCommand('watch')
    .description('Watch the fleet as a live table, or one thing until it is settled.')
    .argument('[id]', 'a node, an allocation or an operation; any other id or name that leads to one')
    .option('-p, --pool <pool>', 'without an id: only this pool')
    .addOption(timeoutWaitOption('with an id'))
    .examples('slipway watch', 'slipway watch alloc_…', 'slipway watch --json --pool gpu')
    .action(
      cli.run<Options>(async (session, options, [id]) => {
        if (id !== undefined) return watchOne(session, id, options);
        const table = session.terminal.out.interactive && !session.json;
        await (table ? watchTable(session, options) : watchLines(session, options));
        return undefined;
      }),
    );
