/**
 * The effect of a heartbeat on a node, by the node's status. A heartbeat without an effect is
 * recorded and changes no status.
 */
import { earliestReturnAt } from '../deadlines/liveness.ts';
import type { NodeStatus } from './states.ts';
import type { Cause } from './transitions.ts';

export const reportedStatuses = ['starting', 'ready', 'degraded', 'stopping'] as const;
export type ReportedStatus = (typeof reportedStatuses)[number];

export interface Beat {
  status?: ReportedStatus;
  error_rate?: number;
  /** The reason, in the machine's own words. */
  message?: string;
}

/** The node's row, read under its row lock. */
export interface ReportingNode {
  status: NodeStatus;
  status_since: Date;
  deadline_at: Date | null;
  registered_at: Date | null;
  /** The last status that the machine reported. */
  reported_status: string | null;
  /** The rule that gave the current status, and the status before it. */
  verdict: { rule: string; from?: string | undefined } | null;
  prerequisites: Prerequisites;
  stale_seconds: number;
}

/** Null if the pool requires no prerequisites. */
export type Prerequisites = 'unchecked' | 'met' | 'missing' | null;

export interface ReportEffect {
  to: NodeStatus;
  by: Cause;
  reason: string;
}

/**
 * The error rates at which a node becomes degraded and ready again. The gap between them prevents
 * flapping.
 */
export const degradedFrom = 0.5;
export const readyBelow = 0.1;

const isUnhealthy = (beat: Beat) => beat.status === 'degraded' || (beat.error_rate ?? 0) >= degradedFrom;
const percent = (rate: number | undefined) => `${Math.round((rate ?? 0) * 100)} %`;

/** Adds the machine's message to a reason, because it may name the cause. */
const appendMessage = (reason: string, { message }: Beat) => {
  const words = message?.replaceAll(/\s+/g, ' ').trim();
  return words ? `${reason}: ${words}` : reason;
};

const secondsSinceStatus = (node: ReportingNode, now: Date) =>
  ((now.getTime() - node.status_since.getTime()) / 1000).toFixed(1);

/** Checked before a report promotes a starting node to `ready` or rescues a failed one. */
export const mayBeReady = (prerequisites: Prerequisites): boolean => prerequisites === null || prerequisites === 'met';

function effectOnStarting(node: ReportingNode, { status }: Beat): ReportEffect | undefined {
  if (status !== 'ready' || !mayBeReady(node.prerequisites)) return undefined;
  return { to: 'ready', by: 'claim-ready', reason: 'the node reported ready' };
}

function effectOnFailed(node: ReportingNode, { status }: Beat, now: Date): ReportEffect | undefined {
  const isInWindow = node.deadline_at !== null && node.deadline_at >= now && node.registered_at !== null;
  // A node whose prerequisites are still missing would fail again at once, in an endless loop.
  if (!isInWindow || status === 'stopping' || !mayBeReady(node.prerequisites)) return undefined;
  return {
    to: 'starting',
    by: 'late-registration',
    reason: `its heartbeats resumed ${secondsSinceStatus(node, now)} s after it failed`,
  };
}

/**
 * A node that said goodbye returns to its former status at once. A node that fell silent returns
 * after its stale time.
 */
function effectOnOffline(node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined {
  if (beat.status === 'stopping') return undefined;
  const fellSilent = node.verdict?.rule === 'liveness';
  if (fellSilent && earliestReturnAt(node.status_since, node.stale_seconds) > now) return undefined;
  const reported = beat.status ?? node.reported_status;
  const wasUnhealthy = node.verdict?.from === 'degraded' && !fellSilent;
  const isStillUnhealthy =
    reported === 'degraded' || isUnhealthy(beat) || (wasUnhealthy && (beat.error_rate ?? degradedFrom) >= readyBelow);
  return {
    to: isStillUnhealthy ? 'degraded' : 'ready',
    by: 'heartbeat-returned',
    reason: isStillUnhealthy ? appendMessage('its heartbeats resumed', beat) : 'its heartbeats resumed',
  };
}

function effectOnReady(_: ReportingNode, beat: Beat): ReportEffect | undefined {
  if (beat.status === 'stopping') return { to: 'offline', by: 'goodbye', reason: 'the node said goodbye' };
  if (beat.status === 'degraded')
    return { to: 'degraded', by: 'degraded', reason: appendMessage('the node reported degraded', beat) };
  if (!isUnhealthy(beat)) return undefined;
  return {
    to: 'degraded',
    by: 'degraded',
    reason: appendMessage(
      `${percent(beat.error_rate)} of its work fails (degraded from ${percent(degradedFrom)})`,
      beat,
    ),
  };
}

function effectOnDegraded(node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined {
  if (beat.status === 'stopping') return { to: 'offline', by: 'goodbye', reason: 'the node said goodbye' };
  if (isUnhealthy(beat) || (beat.status ?? node.reported_status) === 'degraded') return undefined;
  if (node.verdict?.rule === 'liveness')
    return earliestReturnAt(node.status_since, node.stale_seconds) > now
      ? undefined
      : { to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' };
  if (beat.error_rate !== undefined && beat.error_rate < readyBelow)
    return { to: 'ready', by: 'degraded', reason: `only ${percent(beat.error_rate)} of its work fails now` };
  const hasStaleTimePassed = earliestReturnAt(node.status_since, node.stale_seconds) <= now;
  if (
    beat.status === 'ready' &&
    beat.error_rate === undefined &&
    (hasStaleTimePassed || node.reported_status !== 'ready')
  )
    return { to: 'ready', by: 'degraded', reason: 'the node reported ready again' };
  return undefined;
}

type Effect = (node: ReportingNode, beat: Beat, now: Date) => ReportEffect | undefined;

const effects: Partial<Record<NodeStatus, Effect>> = {
  starting: effectOnStarting,
  failed: effectOnFailed,
  offline: effectOnOffline,
  ready: effectOnReady,
  degraded: effectOnDegraded,
};

/** A late `starting` report has no effect on a ready or degraded node. */
export const effectOfBeat = (node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined =>
  effects[node.status]?.(node, beat, now);

/** The part of a node that a replica caches to decide whether a heartbeat changes anything. */
export interface CachedNode {
  node_status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
  boot_stage: string | null;
}

/**
 * Whether the heartbeat must be written before the reply, because it may change a status or reports
 * something new. All other heartbeats are batched.
 */
export function needsImmediateWrite(node: CachedNode, beat: Beat & { boot_stage?: string }): boolean {
  if (beat.status !== undefined && beat.status !== node.reported_status) return true;
  if (beat.boot_stage !== undefined && beat.boot_stage !== node.boot_stage && node.node_status === 'starting')
    return true;
  switch (node.node_status) {
    case 'failed':
    case 'offline':
      return true;
    case 'starting':
      return beat.status === 'ready';
    // A goodbye is written even if the last report was a goodbye too, because the node may have
    // returned in between with heartbeats that report no status.
    case 'ready':
      return beat.status === 'stopping' || isUnhealthy(beat);
    case 'degraded':
      if (beat.status === 'stopping') return true;
      if (isUnhealthy(beat)) return false;
      if (node.verdict_rule === 'liveness') return true;
      return beat.error_rate === undefined ? beat.status === 'ready' : beat.error_rate < readyBelow;
    default:
      return false;
  }
}
