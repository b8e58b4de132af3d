/** Prometheus metrics with bounded labels. Counts come from the store when they are asked for, so that idling costs nothing. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { type Clock, now, secondsBetween } from '../base/clock.ts';
import type { ForwardFigures } from '../base/telemetry/log-forwarder.ts';
import { findingKinds } from '../lifecycle/findings/findings.ts';
import type { Queryable } from '../store/pg/database.ts';
import { countByStatus, countHeld } from '../store/rows/counts.ts';
import { type FencedAge, fencedAges } from '../store/rows/fenced-ages.ts';
import { countOpenFindings } from '../store/rows/findings.ts';
import { countOpenResidue } from '../store/rows/residue.ts';
import { openHolds } from '../store/supervision/brake.ts';
import type { ConnectionFigures } from './limits/held/connections.ts';
import type { OverloadFigures } from './limits/overload/overload.ts';
import type { OutsideFigures } from './limits/quotas/outside-writes.ts';
import type { IntakeFigures } from './logs/log-intake.ts';
import type { FeedFigures } from './stream/live-feed.ts';

const fencedBy = ['pool', 'status'];

export interface SweepFigures {
  name: string;
  runs: number;
  decided: number;
  held: number;
  would_have: number;
  last_run_at: Date | null;
  last_seconds: number | null;
  lateness_seconds: number | null;
  waiting: boolean;
  error: string | null;
  failed_at: Date | null;
}

/** What this replica knows of itself. */
export interface ReplicaFigures {
  sweeps(): SweepFigures[];
  intake(): IntakeFigures;
  forwarders(): ForwardFigures[];
  streams(): FeedFigures;
  agentStreams(): { agents: number; relays: number };
  overload(): OverloadFigures;
  outside(): OutsideFigures;
  connections(): ConnectionFigures;
}

export function createMetrics(db: Queryable, clock: Clock, own: ReplicaFigures): () => Promise<string> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string, labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const nodes = gauge('slipway_nodes', 'Nodes by status', ['status']);
  const allocations = gauge('slipway_allocations', 'Allocations by status', ['status']);
  const operations = gauge('slipway_operations', 'Operations by status', ['status']);
  const sweepRuns = gauge('slipway_sweep_runs_total', 'Runs of a sweep on this replica', ['sweep']);
  const sweepDecided = gauge('slipway_sweep_decided_total', 'Decisions of a sweep on this replica', ['sweep']);
  const sweepHeld = gauge('slipway_sweep_held_total', 'Verdicts of a rule that were held back', ['sweep']);
  const sweepWouldHave = gauge('slipway_sweep_would_have_total', 'Verdicts that observed pools were told of', [
    'sweep',
  ]);
  const sweepLateness = gauge('slipway_sweep_lateness_seconds', 'How late the last verdicts of a rule were', ['sweep']);
  const sweepFailing = gauge('slipway_sweep_failing', 'Whether the last run of a sweep failed', ['sweep']);
  const held = gauge('slipway_nodes_held', 'Nodes whose verdict is held back', ['rule', 'kind']);
  const holds = gauge('slipway_brake_holds', 'Holds that are open and were not let go', ['rule']);
  const fencedNodes = gauge('slipway_fenced_nodes', 'Nodes that take nothing new, by pool and status', fencedBy);
  const fencedOldest = gauge('slipway_fenced_oldest_seconds', 'Age of the oldest such node in its status', fencedBy);
  const parked = gauge('slipway_parked_allocations', 'Allocations whose release failed, by pool', fencedBy);
  const parkedOldest = gauge('slipway_parked_oldest_seconds', 'Age of the oldest failed release', fencedBy);
  const findings = gauge('slipway_findings', 'Open findings by kind', ['kind']);
  const residue = gauge('slipway_residue_open', 'What is upstream without a live owner', ['driver']);
  const residueAge = gauge('slipway_residue_oldest_seconds', 'How long the oldest open residue has been there', [
    'driver',
  ]);
  const sweepSeconds = gauge('slipway_sweep_last_seconds', 'How long the last run of a sweep took', ['sweep']);

  const agentStreams = gauge('slipway_agent_streams', 'Open streams of agents and relays on this replica', ['of']);
  const connections = gauge('slipway_connections', 'Open connections to this replica', []);
  const connectionsClosed = gauge(
    'slipway_connections_closed_total',
    'Connections closed because there were too many',
    ['reason'],
  );
  const fillConnections = ({ open, closed_unknown, closed_idle, refused }: ConnectionFigures) => {
    connections.set(open);
    const byReason = { no_credential: closed_unknown, idle: closed_idle, limit: refused };
    for (const [reason, count] of Object.entries(byReason)) connectionsClosed.set({ reason }, count);
  };
  const beatsHeard = gauge('slipway_beats_total', 'Beats that this replica has heard', []);
  const beatsRate = gauge('slipway_beats_per_second', 'Beats that this replica hears in a second', []);
  const beatsBehind = gauge('slipway_beats_behind_seconds', 'How long beats wait to be stored', []);
  const loopLag = gauge('slipway_loop_lag_seconds', 'How late the timers of this replica are', []);
  const shed = gauge('slipway_shed_total', 'What was put off because this replica had too much to do', ['what']);
  const stretch = gauge('slipway_interval_stretch', 'By which intervals are longer because of that', []);
  const limited = gauge('slipway_limited_total', 'What the write limits dropped, refused or coalesced', ['of', 'what']);
  const limitedAccounts = gauge('slipway_limit_accounts', 'Callers whose write allowance is being counted', []);
  const fillLimits = ({ accounts, losses }: OutsideFigures) => {
    limitedAccounts.set(accounts);
    for (const [of, counts] of losses)
      for (const [what, count] of Object.entries(counts)) limited.set({ of, what }, count);
  };
  const tellOverload = () => {
    const figures = own.overload();
    beatsHeard.set(figures.beats);
    beatsRate.set(figures.beats_per_second);
    beatsBehind.set(figures.behind_ms / 1000);
    loopLag.set(figures.loop_lag_ms / 1000);
    shed.set({ what: 'beats' }, figures.beats_shed);
    shed.set({ what: 'reads' }, figures.reads_shed);
    stretch.set(figures.shedding.stretch);
  };

  const logsHeld = gauge('slipway_logs_held_bytes', 'Log lines that are being stored by this replica', []);
  const logsRefused = gauge('slipway_logs_slowed_total', 'Batches of log lines that were told to come later', []);
  const receivers = ['receiver'];
  const forwarded = gauge('slipway_logs_forwarded_lines_total', 'Log lines that a receiver has taken', receivers);
  const forwardDropped = gauge(
    'slipway_logs_forward_dropped_lines_total',
    'Log lines a receiver did not get',
    receivers,
  );
  const forwardWaiting = gauge('slipway_logs_forward_waiting_lines', 'Log lines that wait to be forwarded', receivers);

  const streamReaders = gauge('slipway_stream_readers', 'Readers of the stream on this replica', []);
  const streamQuestions = gauge('slipway_stream_questions', 'Different things that readers of the stream ask for', []);
  const streamDropped = gauge('slipway_stream_dropped_total', 'Readers that did not keep up and were let go', []);
  const streamFacts = gauge('slipway_stream_facts_total', 'Facts that were shown to readers', []);
  const streamBatches = gauge('slipway_stream_batches_total', 'Batches in which they were shown', []);
  const streamBytes = gauge('slipway_stream_bytes_total', 'Bytes that were sent to readers', []);
  const streamSeconds = gauge('slipway_stream_seconds_total', 'How long each part of showing took, over all batches', [
    'part',
  ]);

  const fillStreams = (streams: FeedFigures) => {
    streamReaders.set(streams.readers);
    streamQuestions.set(streams.questions);
    streamDropped.set(streams.dropped);
    streamFacts.set(streams.facts);
    streamBatches.set(streams.batches);
    streamBytes.set(streams.bytes);
    for (const part of ['tail', 'gather', 'join', 'render', 'write'] as const)
      streamSeconds.set({ part }, streams[`${part}_seconds`]);
  };

  const fill = (target: Gauge, counts: Record<string, number>) => {
    target.reset();
    for (const [status, count] of Object.entries(counts)) target.set({ status }, count);
  };

  const age = (fenced: FencedAge[]) => {
    for (const each of [fencedNodes, fencedOldest, parked, parkedOldest]) each.reset();
    const at = now(clock);
    for (const { of, pool, status, count, oldest_since } of fenced) {
      (of === 'node' ? fencedNodes : parked).set({ pool, status }, count);
      const seconds = Math.max(0, secondsBetween(oldest_since, at));
      (of === 'node' ? fencedOldest : parkedOldest).set({ pool, status }, seconds);
    }
  };

  return async () => {
    const [counted, heldNodes, open, fenced, found, left] = await Promise.all([
      countByStatus(db),
      countHeld(db),
      openHolds(db),
      fencedAges(db),
      countOpenFindings(db),
      countOpenResidue(db),
    ]);
    fill(nodes, counted.nodes);
    fill(allocations, counted.allocations);
    fill(operations, counted.operations);
    age(fenced);
    findings.reset();
    for (const kind of findingKinds) findings.set({ kind }, found.find((each) => each.kind === kind)?.count ?? 0);
    held.reset();
    for (const { rule, kind, count } of heldNodes) held.set({ rule, kind }, count);
    holds.reset();
    for (const { rule, resumed_at } of open) holds.inc({ rule }, resumed_at ? 0 : 1);
    residue.reset();
    residueAge.reset();
    for (const each of left) {
      residue.set({ driver: each.driver }, each.open);
      residueAge.set({ driver: each.driver }, Math.max(0, secondsBetween(each.oldest_since, now(clock))));
    }
    fillStreams(own.streams());
    const { agents, relays } = own.agentStreams();
    agentStreams.set({ of: 'agent' }, agents);
    agentStreams.set({ of: 'relay' }, relays);
    tellOverload();
    fillLimits(own.outside());
    fillConnections(own.connections());
    const { held_bytes, refused } = own.intake();
    logsHeld.set(held_bytes);
    logsRefused.set(refused);
    for (const { receiver, sent, dropped, waiting } of own.forwarders()) {
      forwarded.set({ receiver }, sent);
      forwardDropped.set({ receiver }, dropped);
      forwardWaiting.set({ receiver }, waiting);
    }
    for (const sweep of own.sweeps()) {
      sweepRuns.set({ sweep: sweep.name }, sweep.runs);
      sweepDecided.set({ sweep: sweep.name }, sweep.decided);
      sweepSeconds.set({ sweep: sweep.name }, sweep.last_seconds ?? 0);
      sweepHeld.set({ sweep: sweep.name }, sweep.held);
      sweepWouldHave.set({ sweep: sweep.name }, sweep.would_have);
      sweepLateness.set({ sweep: sweep.name }, sweep.lateness_seconds ?? 0);
      sweepFailing.set({ sweep: sweep.name }, sweep.error === null ? 0 : 1);
    }
    return (await registry.metrics()).replace(countedUp, '$1 counter');
  };
}

/** What only grows is counted elsewhere and copied here, which the library lets us do with gauges alone. */
const countedUp = /^(# TYPE \S+_total) gauge$/gm;
