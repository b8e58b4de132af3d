/**
 * Limits the log batches that a replica holds at once, before their bodies are read. A node that
 * must retry keeps its lines on disk. A fleet that returns all at once therefore waits longer
 * instead of filling the replica's memory.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { declaredBytes } from '../http/bodies/declared-size.ts';
import { onClose } from '../limits/held/places.ts';

export interface IntakeFigures {
  held_bytes: number;
  refused: number;
}

export interface LogIntake {
  /** Throws 429 if the node has to wait; otherwise holds the room until the response is closed. */
  admit(request: FastifyRequest, reply: FastifyReply, maxBytes: number): void;
  figures(): IntakeFigures;
}

const defaultMaxBytes = 64 * 1024 * 1024;
/** An agent sends one batch at a time. A second one is the retry of a call that timed out. */
const maxBatchesPerNode = 2;
const retryAfterSeconds = 1;

/** The pause between tries while a restored server only observes. */
const observingRetrySeconds = 30;

export function createLogIntake(maxHeldBytes = defaultMaxBytes, isObserving = () => false): LogIntake {
  const batchesByNode = new Map<string, number>();
  let held_bytes = 0;
  let refused = 0;

  const refuse = (detail: string, retry_after_seconds = retryAfterSeconds) => {
    refused++;
    throw new ApiProblem('logs_slow_down', { detail, retry_after_seconds });
  };

  return {
    admit(request, reply, maxBytes) {
      // The restored rows may name a former tenant, who must not see the lines of the present one.
      if (isObserving()) refuse('The database was restored; lines are stored later.', observingRetrySeconds);
      const node = request.agent_session?.node_instance_id ?? '';
      const bytes = declaredBytes(request, maxBytes);
      const batches = batchesByNode.get(node) ?? 0;
      if (batches >= maxBatchesPerNode) refuse(`${batches} batches of this node are already in progress.`);
      if (held_bytes > 0 && held_bytes + bytes > maxHeldBytes)
        refuse(`${held_bytes} bytes of log lines are waiting to be stored.`);
      held_bytes += bytes;
      batchesByNode.set(node, batches + 1);
      onClose(reply, () => {
        held_bytes -= bytes;
        const remaining = (batchesByNode.get(node) ?? 1) - 1;
        if (remaining > 0) batchesByNode.set(node, remaining);
        else batchesByNode.delete(node);
      });
    },
    figures: () => ({ held_bytes, refused }),
  };
}
