/**
 * Every open stream of this replica: indexed by instance and token, so that one subscriber of the
 * evidence serves all of them; checked at an interval; closed when the replica stops.
 */
import type { Clock } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { ClosingCode } from '../../contract/errors/stream-closings.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';
import type { Database } from '../../store/pg/database.ts';
import type { OutsideWrites } from '../limits/quotas/outside-writes.ts';
import { type Acceptor, createAcceptor } from './acceptor.ts';
import { type BrokenConnection, createBrokenConnections } from './broken-connections.ts';

export interface OpenStream {
  /** A fact about the instance or token of this stream. */
  observe(fact: Evidence): void;
  /** Called at an interval; `at_ms` is monotonic. */
  check(at_ms: number): void;
  end(code: ClosingCode): void;
  /** Without a closing handshake. */
  terminate(): void;
}

export interface AgentStreams {
  acceptor: Acceptor;
  /** Returns how to remove it. Closes an older stream of the same instance. */
  addAgent(id: NodeInstanceId, stream: OpenStream): () => void;
  addRelay(token_id: string, stream: OpenStream): () => void;
  hasRoom(): boolean;
  isStopping(): boolean;
  figures(): { agents: number; relays: number };
  reportBroken(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

/** Each costs some kilobytes. Larger fleets need more replicas, or relays. */
const maxStreams = 100_000;
const checkEveryMs = 5_000;
const goodbyeMs = 1_000;

export function createAgentStreams(options: {
  db: Database;
  outside: Pick<OutsideWrites, 'allows'>;
  clock: Clock;
  tail: EvidenceTail;
  onError: (error: unknown) => void;
}): AgentStreams {
  const { clock, tail } = options;
  const agents = new Map<NodeInstanceId, OpenStream>();
  const relays = new Map<string, Set<OpenStream>>();
  const all = new Set<OpenStream>();
  const broken = createBrokenConnections(options);
  let stopping = false;
  let allGone: (() => void) | undefined;
  let cancelCheck: (() => void) | undefined;

  const check = () => {
    cancelCheck = undefined;
    const at_ms = clock.monotonicMs();
    for (const stream of all) stream.check(at_ms);
    if (all.size > 0) cancelCheck = clock.after(checkEveryMs, check);
  };
  const enter = (stream: OpenStream) => {
    all.add(stream);
    cancelCheck ??= clock.after(checkEveryMs, check);
  };
  const leave = (stream: OpenStream) => {
    all.delete(stream);
    if (all.size === 0) allGone?.();
  };

  const unsubscribe = tail.subscribe((fact) => {
    if (all.size === 0) return;
    if (fact.kind === 'token.revoked')
      for (const stream of relays.get(String(fact.data.token_id)) ?? []) stream.observe(fact);
    else if (fact.node_instance_id) agents.get(fact.node_instance_id as NodeInstanceId)?.observe(fact);
  });

  return {
    acceptor: createAcceptor(clock),
    addAgent(id, stream) {
      agents.get(id)?.end('stream_replaced');
      agents.set(id, stream);
      enter(stream);
      return () => {
        if (agents.get(id) === stream) agents.delete(id);
        leave(stream);
      };
    },
    addRelay(token_id, stream) {
      const others = relays.get(token_id) ?? new Set();
      relays.set(token_id, others.add(stream));
      enter(stream);
      return () => {
        others.delete(stream);
        if (others.size === 0 && relays.get(token_id) === others) relays.delete(token_id);
        leave(stream);
      };
    },
    hasRoom: () => all.size < maxStreams,
    isStopping: () => stopping,
    figures: () => ({ agents: agents.size, relays: all.size - agents.size }),
    reportBroken: broken.report,
    async stop() {
      stopping = true;
      unsubscribe();
      for (const stream of all) stream.end('not_ready');
      if (all.size > 0)
        await new Promise<void>((resolve) => {
          const cancel = clock.after(goodbyeMs, resolve);
          allGone = () => {
            cancel();
            resolve();
          };
        });
      for (const stream of all) stream.terminate();
      cancelCheck?.();
      await broken.stop();
    },
  };
}
