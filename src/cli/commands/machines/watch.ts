/**
 * `slipway watch`: shows the fleet as a live table or one line per change, or follows one thing
 * until it settles.
 */
import { RequestRefused } from '../../../contract/client.ts';
import type { Operation } from '../../../contract/operation.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { streamChanges } from '../../connection/event-stream.ts';
import { collect } from '../../connection/pages.ts';
import { resolveThing } from '../../connection/resolve-id.ts';
import { isTransient, type Session } from '../../connection/session.ts';
import { readWireEvent, type WireEvent } from '../../connection/wire-event.ts';
import { changeLine } from '../../render/allocations/progress.ts';
import { fleetLines } from '../../render/machines/fleet.ts';
import { momentInFull } from '../../render/text/duration.ts';
import { printable } from '../../render/text/text.ts';
import { openLiveView } from '../../terminal/live-view.ts';
import { timeoutWaitOption } from '../../terminal/option-values.ts';
import { fitOf, printJsonLine, printLines } from '../../terminal/terminal.ts';
import { applyEvent, type Fleet, fleetOf } from '../../wait/fleet.ts';
import { fetchSubject } from '../../wait/follow.ts';
import { emptySubject } from '../../wait/subject.ts';
import { waitUntilSettled } from '../../wait/wait.ts';
import { listAllocations } from '../allocations/allocations.ts';
import { listNodes } from './nodes.ts';

interface Options {
  pool?: string;
  timeoutWait?: number;
}

const maxItems = 5_000;
const unfinishedStatuses = ['queued', 'running', 'cancelling'] as const;

async function fetchFleet(session: Session, { pool }: Options): Promise<Fleet> {
  const filter = { limit: maxItems, ...(pool && { pool }) };
  const [nodes, allocations, ...operations] = await Promise.all([
    listNodes(session, filter),
    listAllocations(session, filter),
    ...unfinishedStatuses.map((status) =>
      collect<Operation>((paging) => session.call('operation-list', { query: { status, ...paging } }), maxItems),
    ),
  ]);
  return fleetOf(
    nodes.items,
    allocations.items,
    operations.flatMap(({ items }) => items),
  );
}

const openChanges = (session: Session, { pool }: Options) =>
  streamChanges({
    clock: session.clock,
    signal: session.signal,
    open: (last, signal) =>
      session.openStream({ topics: 'nodes,allocations,operations', ...(pool && { pool }) }, last, signal),
  });

/** Fails on a refused stream, because a retry would be refused too. */
const throwIfRefused = (reason: unknown) => {
  if (reason instanceof RequestRefused && !isTransient(reason)) throw reason;
};

async function watchTable(session: Session, options: Options): Promise<void> {
  const { clock } = session;
  const { out } = session.terminal;
  let fleet = await fetchFleet(session, options);
  let connection = 'connecting';
  const compose = () =>
    fleetLines(fleet, { server: session.server, connection, nowMs: clock.nowMs(), rows: out.rows() }, fitOf(out));
  const view = openLiveView(out, clock, compose);
  try {
    for await (const change of openChanges(session, options)) {
      if (change.type === 'event') {
        const event = readWireEvent(change.event);
        if (event) applyEvent(fleet, event);
      } else if (change.type === 'open') {
        connection = 'live';
        fleet = await fetchFleet(session, options);
      } else if (change.type === 'closed') {
        throwIfRefused(change.reason);
        connection = 'connection lost, retrying';
      }
      view.markChanged();
    }
  } finally {
    view.close();
  }
}

interface EventLine {
  id: string;
  at: string;
  text: string;
}

const joinPieces = (...pieces: (string | null | undefined)[]) => pieces.filter(Boolean).join('  ');

function eventLine(event: WireEvent): EventLine {
  if (event.kind === 'node') {
    const { node_id, name, status, status_since, verdict } = event.node;
    return {
      id: node_id,
      at: momentInFull(status_since),
      text: joinPieces(node_id, name, status, printable(verdict?.reason ?? '')),
    };
  }
  if (event.kind === 'allocation') {
    const { allocation_id, name, status, status_since, reason } = event.allocation;
    return {
      id: allocation_id,
      at: momentInFull(status_since),
      text: joinPieces(allocation_id, name, status, printable(reason ?? '')),
    };
  }
  const { workflow_id, kind, status, progress } = event.operation;
  const step = changeLine({ progress, bar: null });
  return { id: workflow_id, at: momentInFull(progress.updated_at), text: joinPieces(workflow_id, kind, status, step) };
}

async function watchLines(session: Session, options: Options): Promise<void> {
  const { out, err } = session.terminal;
  let isLost = false;
  // The stream sends a thing again with every fact about it, so skip lines that did not change.
  const printed = new Map<string, string>();
  if (!session.json) printLines(err, [err.paint('quiet', 'Watching: one line per change. Press Ctrl-C to stop.')]);
  for await (const change of openChanges(session, options)) {
    if (change.type === 'closed') {
      throwIfRefused(change.reason);
      if (!isLost) printLines(err, [err.paint('warn', '! connection lost, retrying')]);
      isLost = true;
    } else isLost = false;
    const wireEvent = change.type === 'event' ? readWireEvent(change.event) : null;
    if (change.type !== 'event' || !wireEvent) continue;
    const { id, event, data } = change.event;
    if (session.json) printJsonLine(out, { event, cursor: id, data: JSON.parse(data) });
    else {
      const { id: thingId, at, text } = eventLine(wireEvent);
      if (text !== printed.get(thingId)) printLines(out, [`${at}  ${text}`]);
      printed.set(thingId, text);
    }
  }
}

async function watchOne(session: Session, word: string, options: Options) {
  const { kind, id } = await resolveThing(session, word);
  const target = { kind, id };
  // Fetches the thing before drawing, so that a mistyped id is an error and not a wait.
  const known = await fetchSubject(session, target, emptySubject, session.signal);
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
    .description('Watch the fleet as a live table, or one thing until it settles.')
    .argument('[id]', 'any id or name of a node, an allocation or an operation')
    .option('-p, --pool <pool>', 'without an id: only this pool')
    .addOption(timeoutWaitOption('with an id'))
    .examples('slipway watch', 'slipway watch alloc_…', 'slipway watch --json --pool gpu')
    .action(
      cli.run<Options>(async (session, options, [id]) => {
        if (id !== undefined) return watchOne(session, id, options);
        const showsTable = session.terminal.out.interactive && !session.json;
        await (showsTable ? watchTable(session, options) : watchLines(session, options));
        return undefined;
      }),
    );
