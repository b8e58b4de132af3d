/**
 * How much of what nodes ship a replica holds at once. Asked before a body is read: who is told to come again later keeps the lines on
 * their own disk, so a fleet that comes back all at once costs time and not memory.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { declaredBytes } from '../http/bodies/declared-size.ts';
import { whenOver } from '../limits/held/places.ts';

export interface IntakeFigures {
  held_bytes: number;
  refused: number;
}

export interface LogIntake {
  /** Throws the problem of who has to wait; otherwise the room is theirs until the exchange is over. */
  admit(request: FastifyRequest, reply: FastifyReply, mostBytes: number): void;
  figures(): IntakeFigures;
}

const usualMostBytes = 64 * 1024 * 1024;
/** An agent has one batch under way; a second one is the repeat of a call that it gave up on. */
const mostOfOneNode = 2;
const retryAfterSeconds = 1;

export function createLogIntake(mostHeldBytes = usualMostBytes): LogIntake {
  const underWay = new Map<string, number>();
  let held_bytes = 0;
  let refused = 0;

  const refuse = (detail: string) => {
    refused++;
    throw new ApiProblem('logs_slow_down', { detail, retry_after_seconds: retryAfterSeconds });
  };

  return {
    admit(request, reply, mostBytes) {
      const node = request.agent_session?.node_instance_id ?? '';
      const bytes = declaredBytes(request, mostBytes);
      const ofNode = underWay.get(node) ?? 0;
      if (ofNode >= mostOfOneNode) refuse(`${ofNode} batches of this node are under way already.`);
      if (held_bytes > 0 && held_bytes + bytes > mostHeldBytes)
        refuse(`${held_bytes} bytes of log lines wait to be stored.`);
      held_bytes += bytes;
      underWay.set(node, ofNode + 1);
      whenOver(reply, () => {
        held_bytes -= bytes;
        const left = (underWay.get(node) ?? 1) - 1;
        if (left > 0) underWay.set(node, left);
        else underWay.delete(node);
      });
    },
    figures: () => ({ held_bytes, refused }),
  };
}
