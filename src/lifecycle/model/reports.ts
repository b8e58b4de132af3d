/** What a beat does to a node that stands somewhere: the claims table. What is not here is recorded and changes nothing. Pure. */
import { mayReturnAt } from '../deadlines/liveness.ts';
import type { NodeStatus } from './states.ts';
import type { Cause } from './transitions.ts';

export type ReportedStatus = 'starting' | 'ready' | 'degraded' | 'stopping';

export interface Beat {
  status?: ReportedStatus;
  error_rate?: number;
  /** Why, in the machine's own words. */
  message?: string;
}

/** The node as the door reads it under its lock. */
export interface ReportingNode {
  status: NodeStatus;
  status_since: Date;
  deadline_at: Date | null;
  registered_at: Date | null;
  /** What it last claimed. */
  reported_status: string | null;
  /** The rule that brought it where it stands, and where it stood before. */
  verdict: { rule: string; from?: string | undefined } | null;
  prerequisites: Prerequisites;
  stale_seconds: number;
}

/** Null: the pool asks for none. */
export type Prerequisites = 'unchecked' | 'met' | 'missing' | null;

export interface ReportEffect {
  to: NodeStatus;
  by: Cause;
  reason: string;
}

/** Errors at which a serving node is degraded, and below which it is well again: far apart, so that it does not flap. */
export const degradedFrom = 0.5;
export const wellBelow = 0.1;

const isIll = (beat: Beat) => beat.status === 'degraded' || (beat.error_rate ?? 0) >= degradedFrom;
const percent = (rate: number | undefined) => `${Math.round((rate ?? 0) * 100)} %`;

/** What the machine says about it belongs to the reason: it alone knows what is wrong. */
const inItsWords = (reason: string, { message }: Beat) => {
  const words = message?.replaceAll(/\s+/g, ' ').trim();
  return words ? `${reason}: ${words}` : reason;
};

const lateness = (node: ReportingNode, now: Date) => ((now.getTime() - node.status_since.getTime()) / 1000).toFixed(1);

/** Prerequisites are looked at before `ready`, whoever promotes. */
export const mayBeReady = (prerequisites: Prerequisites): boolean => prerequisites === null || prerequisites === 'met';

function whenStarting(node: ReportingNode, { status }: Beat): ReportEffect | undefined {
  if (status !== 'ready' || !mayBeReady(node.prerequisites)) return undefined;
  return { to: 'ready', by: 'claim-ready', reason: 'the node said it is ready' };
}

function whenFailed(node: ReportingNode, { status }: Beat, now: Date): ReportEffect | undefined {
  const open = node.deadline_at !== null && node.deadline_at >= now && node.registered_at !== null;
  // What it was given up for must not still hold: it would be given up again, and again, and never be over.
  if (!open || status === 'stopping' || !mayBeReady(node.prerequisites)) return undefined;
  return {
    to: 'starting',
    by: 'late-registration',
    reason: `it beats again, ${lateness(node, now)} s after it was given up`,
  };
}

/** Back to what it was. One that the rule found silent waits out its stale time; one that said goodbye comes back at once. */
function whenOffline(node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined {
  if (beat.status === 'stopping') return undefined;
  const silenced = node.verdict?.rule === 'liveness';
  if (silenced && mayReturnAt(node.status_since, node.stale_seconds) > now) return undefined;
  const said = beat.status ?? node.reported_status;
  const wasIll = node.verdict?.from === 'degraded' && !silenced;
  const ill = said === 'degraded' || isIll(beat) || (wasIll && (beat.error_rate ?? degradedFrom) >= wellBelow);
  return {
    to: ill ? 'degraded' : 'ready',
    by: 'heartbeat-returned',
    reason: ill ? inItsWords('it beats again', beat) : 'it beats again',
  };
}

function whenReady(_: ReportingNode, beat: Beat): ReportEffect | undefined {
  if (beat.status === 'stopping') return { to: 'offline', by: 'goodbye', reason: 'the node said goodbye' };
  if (beat.status === 'degraded')
    return { to: 'degraded', by: 'degraded', reason: inItsWords('the node says it is degraded', beat) };
  if (!isIll(beat)) return undefined;
  return {
    to: 'degraded',
    by: 'degraded',
    reason: inItsWords(`${percent(beat.error_rate)} of its work fails (degraded from ${percent(degradedFrom)})`, beat),
  };
}

function whenDegraded(node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined {
  if (beat.status === 'stopping') return { to: 'offline', by: 'goodbye', reason: 'the node said goodbye' };
  if (isIll(beat) || (beat.status ?? node.reported_status) === 'degraded') return undefined;
  if (node.verdict?.rule === 'liveness')
    return mayReturnAt(node.status_since, node.stale_seconds) > now
      ? undefined
      : { to: 'ready', by: 'heartbeat-returned', reason: 'it beats again' };
  if (beat.error_rate !== undefined && beat.error_rate < wellBelow)
    return { to: 'ready', by: 'degraded', reason: `only ${percent(beat.error_rate)} of its work fails now` };
  const waited = mayReturnAt(node.status_since, node.stale_seconds) <= now;
  if (beat.status === 'ready' && beat.error_rate === undefined && (waited || node.reported_status !== 'ready'))
    return { to: 'ready', by: 'degraded', reason: 'the node says it is well again' };
  return undefined;
}

type Effect = (node: ReportingNode, beat: Beat, now: Date) => ReportEffect | undefined;

const effects: Partial<Record<NodeStatus, Effect>> = {
  starting: whenStarting,
  failed: whenFailed,
  offline: whenOffline,
  ready: whenReady,
  degraded: whenDegraded,
};

/** Where a beat takes a node. A `starting` claim after promotion takes it nowhere: a claim never goes back past a verdict. */
export const effectOfBeat = (node: ReportingNode, beat: Beat, now: Date): ReportEffect | undefined =>
  effects[node.status]?.(node, beat, now);

/** What the replica remembers of a node, enough to know whether a beat may change something. */
export interface CachedNode {
  node_status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
  boot_stage: string | null;
}

/** Only what may change a status, or is news, is written before it is answered; a plain beat is coalesced. */
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
    // A goodbye ends it even when it is what the node last said: it may have come back since with beats that claim nothing.
    case 'ready':
      return beat.status === 'stopping' || isIll(beat);
    case 'degraded':
      if (beat.status === 'stopping') return true;
      if (isIll(beat)) return false;
      if (node.verdict_rule === 'liveness') return true;
      return beat.error_rate === undefined ? beat.status === 'ready' : beat.error_rate < wellBelow;
    default:
      return false;
  }
}
