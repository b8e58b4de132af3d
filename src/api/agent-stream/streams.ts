/**
 * Every open stream of this replica: found by whom it speaks for, so that one reader of the evidence serves all of them; looked at now
 * and then; and closed when the replica stops, in a way that its agents come back spread.
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
  /** A fact about whom it speaks for. */
  observe(fact: Evidence): void;
  /** `at_ms` on the clock that only grows. */
  look(at_ms: number): void;
  end(code: ClosingCode): void;
  cut(): void;
}

export interface AgentStreams {
  acceptor: Acceptor;
  /** Returns how it leaves. An older stream of the same instance is closed. */
  addAgent(id: NodeInstanceId, stream: OpenStream): () => void;
  addRelay(token_id: string, stream: OpenStream): () => void;
  hasRoom(): boolean;
  isStopping(): boolean;
  figures(): { agents: number; relays: number };
  tellBroken(connection: BrokenConnection): void;
  stop(): Promise<void>;
}

/** Each costs some kilobytes; more than this belong on more replicas, or behind relays. */
const mostStreams = 100_000;
const lookEveryMs = 5_000;
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
  let cancelLook: (() => void) | undefined;

  const look = () => {
    cancelLook = undefined;
    const at_ms = clock.monotonicMs();
    for (const stream of all) stream.look(at_ms);
    if (all.size > 0) cancelLook = clock.after(lookEveryMs, look);
  };
  const enter = (stream: OpenStream) => {
    all.add(stream);
    cancelLook ??= clock.after(lookEveryMs, look);
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
    hasRoom: () => all.size < mostStreams,
    isStopping: () => stopping,
    figures: () => ({ agents: agents.size, relays: all.size - agents.size }),
    tellBroken: broken.tell,
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
      for (const stream of all) stream.cut();
      cancelLook?.();
      await broken.stop();
    },
  };
}
