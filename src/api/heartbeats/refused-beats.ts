/**
 * Records on a machine's timeline that its heartbeats arrive but are refused, so that rules can
 * distinguish them from missing ones. Writes one fact per machine, status and hour, in batches.
 */
import { type Clock, now } from '../../base/clock.ts';
import {
  type BeatRefusal,
  beatRefusals,
  type JoinRefusal,
  joinRefusals,
  refusalRecordedEverySeconds,
  refusedBeatKind,
} from '../../lifecycle/findings/refused-beats.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { type Fact, recordEvidence } from '../../store/evidence/evidence.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { actorOf, type Relay } from '../http/callers.ts';
import type { WriteLimits } from '../limits/quotas/write-limits.ts';
import { instanceWriter, relayWriter } from '../limits/quotas/writers.ts';

export type RefusedBeat = RefusedRelayBeat | RefusedJoinBeat;

type RefusedSession = Pick<AgentSession, 'node_id' | 'node_instance_id' | 'node_status' | 'pool'>;

/** The join token in the machine's heartbeats has expired or was revoked. */
interface RefusedJoinBeat {
  session: RefusedSession;
  code: JoinRefusal;
  join_token_id: string;
  /** When the token expired or was revoked. */
  ended_at: Date;
}

interface RefusedRelayBeat {
  session: RefusedSession;
  /** The relay that forwarded the heartbeat; null if the machine sent the heartbeat itself. */
  relay: Relay | null;
  code: BeatRefusal;
}

const writerOf = (beat: RefusedBeat) =>
  'relay' in beat && beat.relay ? relayWriter(actorOf(beat.relay)) : instanceWriter(beat.session);

export type ReportRefusedBeat = (beat: RefusedBeat) => void;

const batchMs = 500;
/** A machine beyond this limit is recorded with its next heartbeat. */
const maxWaiting = 1_000;
/** Limits the rows per hour. Rows of further machines would add nothing new. */
const maxReported = 50_000;

const factOf = (beat: RefusedBeat, at: Date): Fact =>
  'join_token_id' in beat ? joinFactOf(beat, at) : relayFactOf(beat, at);

function joinFactOf({ session, code, join_token_id, ended_at }: RefusedJoinBeat, at: Date): Fact {
  const { node_id, node_instance_id, pool } = session;
  const why_not = joinRefusals[code].why(join_token_id);
  return {
    at,
    layer: 'api',
    kind: refusedBeatKind,
    summary: `the node's heartbeats arrive but are refused: ${why_not}`,
    data: {
      code,
      why_not,
      way_out: joinRefusals[code].way_out(pool),
      shown: 'join_token',
      pool,
      join_token_id,
      ended_at: ended_at.toISOString(),
    },
    node_id,
    node_instance_id,
  };
}

function relayFactOf({ session, relay, code }: RefusedRelayBeat, at: Date): Fact {
  const { node_id, node_instance_id, pool } = session;
  const relayNames = { relay: relay?.name ?? '', relay_pool: relay?.pool ?? '' };
  const why_not = beatRefusals[code].why(relayNames, pool);
  const way_out = beatRefusals[code].way_out(relayNames, pool);
  return {
    at,
    layer: 'api',
    kind: refusedBeatKind,
    summary: `the node's heartbeats arrive but are refused: ${why_not}`,
    data: { code, why_not, way_out, shown: 'credential', pool, ...(relay && relayNames) },
    actor: relay && actorOf(relay),
    node_id,
    node_instance_id,
  };
}

export function createRefusedBeats(
  db: Queryable,
  clock: Clock,
  writeLimits: Pick<WriteLimits, 'tryCharge'>,
  onError: (error: unknown) => void,
): { report: ReportRefusedBeat; stop(): Promise<void> } {
  /** Oldest first. */
  const lastReports = new Map<string, { status: string; at_ms: number }>();
  let waiting: Fact[] = [];
  let cancel: (() => void) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const isRecent = ({ at_ms }: { at_ms: number }) => clock.nowMs() - at_ms < 1000 * refusalRecordedEverySeconds;
  const makeRoom = (): boolean => {
    const [oldest] = lastReports;
    if (lastReports.size < maxReported || !oldest) return true;
    return !isRecent(oldest[1]) && lastReports.delete(oldest[0]);
  };
  const flush = () => {
    cancel?.();
    cancel = undefined;
    const facts = waiting;
    waiting = [];
    if (facts.length === 0) return;
    const write = async () => {
      await recordEvidence(db, facts);
    };
    writing = writing.then(write).catch((error) => {
      for (const { node_instance_id } of facts) lastReports.delete(node_instance_id ?? '');
      onError(error);
    });
  };

  return {
    report(beat) {
      const { node_instance_id: id, node_status: status } = beat.session;
      const lastReport = lastReports.get(id);
      if (lastReport?.status === status && isRecent(lastReport)) return;
      if (waiting.length >= maxWaiting || (!lastReport && !makeRoom())) return;
      const fact = factOf(beat, now(clock));
      if (!writeLimits.tryCharge(writerOf(beat), [fact])) return;
      lastReports.delete(id);
      lastReports.set(id, { status, at_ms: clock.nowMs() });
      waiting.push(fact);
      cancel ??= clock.after(batchMs, flush);
    },
    async stop() {
      flush();
      await writing;
    },
  };
}
