/**
 * Agents with a stream each (WebSocket): a frame per heartbeat, and a reply with the same number. A
 * broken or refused connection is reopened with the next heartbeat.
 */
import { WebSocket } from 'ws';
import { systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { type BeatAnswer, countUp, type Tally } from './relay.ts';

const retryMs = 5_000;
const answerWithinMs = 15_000;

export interface Streams {
  send(agent: number): void;
  stop(): void;
}

interface Line {
  socket: WebSocket;
  /** When the unanswered heartbeat was sent. */
  sentMs: number | undefined;
}

export function createStreams(
  agents: Agents,
  urlOf: (number: number) => string,
  tally: Tally,
  onAnswer: (agent: number, answer: BeatAnswer, sentMs: number) => void,
): Streams {
  const lines = new Map<number, Line>();
  let stopped = false;

  const open = (agent: number): Line => {
    const socket = new WebSocket(`${urlOf(agent).replace(/^http/, 'ws')}/v1/agent/stream`, {
      headers: { authorization: `Bearer ${agents.credential(agent)}` },
      perMessageDeflate: false,
      handshakeTimeout: answerWithinMs,
    });
    const line: Line = { socket, sentMs: undefined };
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as BeatAnswer & { seq?: number; problem?: { code: string } };
      // A frame without a number is not a reply.
      if (frame.seq === undefined || line.sentMs === undefined) return;
      const sentMs = line.sentMs;
      line.sentMs = undefined;
      tally.answered++;
      onAnswer(agent, frame.problem ?? frame, sentMs);
    });
    socket.on('error', (error) => countUp(tally.failed, `stream: ${error.message.replace(/:\d+$/, '')}`));
    socket.on('close', () => {
      lines.delete(agent);
      // A dead agent waits for nothing; any other has an unanswered heartbeat or is in the wheel.
      if (line.sentMs !== undefined && !stopped)
        agents.wheel.at(agent, systemClock.nowMs() + retryMs * (0.5 + Math.random() / 2));
    });
    lines.set(agent, line);
    return line;
  };

  return {
    send(agent) {
      const line = lines.get(agent) ?? open(agent);
      line.sentMs = systemClock.nowMs();
      tally.sent++;
      const frame = `{"seq":${line.sentMs},${agents.said(agent)}}`;
      if (line.socket.readyState === WebSocket.OPEN) line.socket.send(frame);
      else line.socket.once('open', () => line.socket.send(frame));
    },
    stop() {
      stopped = true;
      for (const { socket } of lines.values()) socket.terminate();
    },
  };
}
