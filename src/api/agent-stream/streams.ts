/**
 * Keeps every open stream of this replica. The streams are indexed by instance and token, so that
 * one subscription to the evidence tail serves all of them. They are checked at an interval and
 * closed when the replica stops.
 */
import type { Clock } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { ClosingCode } from '../../contract/errors/stream-closings.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';
import type { Database } from '../../store/pg/database.ts';
import type { WriteLimits } from '../limits/quotas/write-limits.ts';
import { type Acceptor, createAcceptor } from './acceptor.ts';
import { type BrokenConnection, createBrokenConnections } from './broken-connections.ts';

export interface OpenStream {
  /** Receives a fact about the instance or token of this stream. */
  observe(fact: Evidence): void;
  /** Called at an interval; `at_ms` is monotonic. */
  check(at_ms: number): void;
  end(code: ClosingCode): void;
  /** Drops the connection without a closing handshake. */
  terminate(): void;
}

export interface AgentStreams {
  acceptor: Acceptor;
  /** Closes an older stream of the same instance. Returns a function that removes this one. */
  addAgent(id: NodeInstanceId, stream: OpenStream): () => void;
  addRelay(token_id: string, stream: OpenStream): () => void;
  hasRoom(): boolean;
  isStopping(): boolean;
  figures(): { agents: number; relays: number };
  reportBroken(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

/** A stream costs a few kilobytes of memory. Larger fleets need more replicas, or relays. */
const maxStreams = 100_000;
const checkEveryMs = 5_000;
const closeTimeoutMs = 1_000;

export function createAgentStreams(options: {
  db: Database;
  writeLimits: Pick<WriteLimits, 'tryCharge'>;
  clock: Clock;
  tail: EvidenceTail;
  onError: (error: unknown) => void;
}): AgentStreams {
  const { clock, tail } = options;
  const agents = new Map<NodeInstanceId, OpenStream>();
  const relays = new Map<string, Set<OpenStream>>();
  const all = new Set<OpenStream>();
  const broken = createBrokenConnections(options);
  let isStopping = false;
  let onAllClosed: (() => void) | undefined;
  let cancelCheck: (() => void) | undefined;

  const check = () => {
    cancelCheck = undefined;
    const at_ms = clock.monotonicMs();
    for (const stream of all) stream.check(at_ms);
    if (all.size > 0) cancelCheck = clock.after(checkEveryMs, check);
  };
  const add = (stream: OpenStream) => {
    all.add(stream);
    cancelCheck ??= clock.after(checkEveryMs, check);
  };
  const remove = (stream: OpenStream) => {
    all.delete(stream);
    if (all.size === 0) onAllClosed?.();
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
      add(stream);
      return () => {
        if (agents.get(id) === stream) agents.delete(id);
        remove(stream);
      };
    },
    addRelay(token_id, stream) {
      const streamsOfToken = relays.get(token_id) ?? new Set();
      relays.set(token_id, streamsOfToken.add(stream));
      add(stream);
      return () => {
        streamsOfToken.delete(stream);
        if (streamsOfToken.size === 0 && relays.get(token_id) === streamsOfToken) relays.delete(token_id);
        remove(stream);
      };
    },
    hasRoom: () => all.size < maxStreams,
    isStopping: () => isStopping,
    figures: () => ({ agents: agents.size, relays: all.size - agents.size }),
    reportBroken: broken.report,
    async stop() {
      isStopping = true;
      unsubscribe();
      for (const stream of all) stream.end('not_ready');
      if (all.size > 0)
        await new Promise<void>((resolve) => {
          const cancel = clock.after(closeTimeoutMs, resolve);
          onAllClosed = () => {
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
