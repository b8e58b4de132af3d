/**
 * Simulates agents with a WebSocket stream each. Each heartbeat is a frame, and the reply has the
 * same number. A broken or refused connection is reopened with the next heartbeat.
 */
import { WebSocket } from 'ws';
import { systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { type BeatAnswer, countUp, type Tally } from './relay.ts';

const retryMs = 5_000;
const handshakeTimeoutMs = 15_000;

export interface Streams {
  send(agent: number): void;
  stop(): void;
}

interface Connection {
  socket: WebSocket;
  /** When the unanswered heartbeat was sent. */
  sentMs: number | undefined;
}

export function createStreams(
  agents: Agents,
  urlOf: (agent: number) => string,
  tally: Tally,
  onAnswer: (agent: number, answer: BeatAnswer, sentMs: number) => void,
): Streams {
  const connections = new Map<number, Connection>();
  let isStopped = false;

  const open = (agent: number): Connection => {
    const socket = new WebSocket(`${urlOf(agent).replace(/^http/, 'ws')}/v1/agent/stream`, {
      headers: { authorization: `Bearer ${agents.credential(agent)}` },
      perMessageDeflate: false,
      handshakeTimeout: handshakeTimeoutMs,
    });
    const connection: Connection = { socket, sentMs: undefined };
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as BeatAnswer & { seq?: number; problem?: { code: string } };
      // A frame without a number is not a reply.
      if (frame.seq === undefined || connection.sentMs === undefined) return;
      const sentMs = connection.sentMs;
      connection.sentMs = undefined;
      tally.answered++;
      onAnswer(agent, frame.problem ?? frame, sentMs);
    });
    socket.on('error', (error) => countUp(tally.failed, `stream: ${error.message.replace(/:\d+$/, '')}`));
    socket.on('close', () => {
      connections.delete(agent);
      // If every heartbeat was answered, the next one is already scheduled, or the agent is dead.
      if (connection.sentMs !== undefined && !isStopped)
        agents.wheel.schedule(agent, systemClock.nowMs() + retryMs * (0.5 + Math.random() / 2));
    });
    connections.set(agent, connection);
    return connection;
  };

  return {
    send(agent) {
      const connection = connections.get(agent) ?? open(agent);
      connection.sentMs = systemClock.nowMs();
      tally.sent++;
      const frame = `{"seq":${connection.sentMs},${agents.reportOf(agent)}}`;
      if (connection.socket.readyState === WebSocket.OPEN) connection.socket.send(frame);
      else connection.socket.once('open', () => connection.socket.send(frame));
    },
    stop() {
      isStopped = true;
      for (const { socket } of connections.values()) socket.terminate();
    },
  };
}
