/**
 * Reads and writes JSON frames on one WebSocket. Frames are handled in order. A peer that sends
 * frames faster than they are handled, or that does not read the answers, is dropped.
 */
import type { WebSocket } from 'ws';
import type { Clock } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type ClosingCode, isClosingCode, streamClosings } from '../../contract/errors/stream-closings.ts';
import { problemOf } from '../http/replies/problem-reply.ts';

export interface Wire {
  send(frame: object): void;
  /** Sends the problem, and closes the connection if the problem ends it. */
  refuse(error: unknown, seq?: number): void;
  close(code: ClosingCode): void;
  /** Drops the connection without a closing handshake. */
  terminate(): void;
  ping(): void;
  /** Terminates the connection if too many bytes wait for the peer to read them. */
  dropSlowReader(): void;
  /** When the last frame or pong arrived, in monotonic time. */
  lastHeardMs(): number;
}

export interface ConnectionEnd {
  lasted_seconds: number;
  why: string;
  broken: boolean;
}

export interface WireParts {
  clock: Clock;
  log: Log;
  correlation_id: CorrelationId;
  limits: { waiting_frames: number; unsent_bytes: number };
  handleFrame(frame: unknown): Promise<void>;
  onEnd(end: ConnectionEnd): void;
}

/** How long the peer may take to answer the closing handshake. */
const closeTimeoutMs = 2_000;

/** Close codes of a peer that leaves on purpose. */
const regularCodes: readonly number[] = [1000, 1001];
const abnormalCode = 1006;

const seqOf = (frame: unknown): number | undefined => {
  const { seq } = (frame ?? {}) as { seq?: unknown };
  return typeof seq === 'number' ? seq : undefined;
};

function parseFrame(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) throw new ApiProblem('malformed_json', 'A frame is not JSON.');
    throw error;
  }
}

export function openWire(socket: WebSocket, parts: WireParts): Wire {
  const { clock, log, correlation_id, limits } = parts;
  const openedMs = clock.monotonicMs();
  const waiting: string[] = [];
  let isHandling = false;
  let pongsUnsent = 0;
  let lastHeardMs = openedMs;
  let closing: ClosingCode | undefined;
  let socketError: string | undefined;
  let cancelTerminate = () => {};

  const isOpen = () => socket.readyState === socket.OPEN;
  const close = (code: ClosingCode) => {
    if (closing) return;
    closing = code;
    waiting.length = 0;
    socket.close(streamClosings[code].close_code, code);
    cancelTerminate = clock.after(closeTimeoutMs, () => socket.terminate());
  };
  const dropSlowReader = () => {
    if (closing || socket.bufferedAmount <= limits.unsent_bytes) return;
    closing = 'stream_overrun';
    // The peer reads no frames, so it would not read the reason either.
    socket.terminate();
  };
  const send = (frame: object) => {
    if (closing || !isOpen()) return;
    socket.send(JSON.stringify(frame));
    dropSlowReader();
  };
  const refuse = (error: unknown, seq?: number) => {
    const { problem, body } = problemOf(error, { log, correlation_id, operation: 'agent-stream' });
    send(seq === undefined ? { problem: body } : { seq, problem: body });
    if (isClosingCode(problem.code)) close(problem.code);
  };

  const handleWaiting = async () => {
    isHandling = true;
    for (let text = waiting.shift(); text !== undefined && !closing; text = waiting.shift()) {
      let frame: unknown;
      try {
        frame = parseFrame(text);
        await parts.handleFrame(frame);
      } catch (error) {
        refuse(error, seqOf(frame));
      }
    }
    isHandling = false;
  };

  socket.on('message', (data, isBinary) => {
    lastHeardMs = clock.monotonicMs();
    if (closing) return;
    if (isBinary) return close('unsupported_media_type');
    if (waiting.length >= limits.waiting_frames) return refuse(new ApiProblem('stream_overrun'));
    waiting.push(String(data));
    if (!isHandling) void handleWaiting();
  });
  socket.on('ping', (data) => {
    if (closing || !isOpen()) return;
    // Limit the pongs too, not only the bytes: a queued two-byte pong costs far more memory.
    if (pongsUnsent >= limits.waiting_frames) return refuse(new ApiProblem('stream_overrun'));
    pongsUnsent++;
    socket.pong(data, false, () => {
      pongsUnsent--;
    });
    dropSlowReader();
  });
  socket.on('pong', () => {
    lastHeardMs = clock.monotonicMs();
  });
  // The library closes the connection by itself; the close event reports the error.
  socket.on('error', (error: NodeJS.ErrnoException) => {
    socketError = error.code ?? error.message;
  });
  socket.on('close', (code, reason) => {
    cancelTerminate();
    waiting.length = 0;
    const lasted_seconds = Math.round(clock.monotonicMs() - openedMs) / 1000;
    if (closing) parts.onEnd({ lasted_seconds, why: closing, broken: streamClosings[closing].broken });
    else if (socketError) parts.onEnd({ lasted_seconds, why: socketError, broken: true });
    else if (code === abnormalCode) parts.onEnd({ lasted_seconds, why: 'it ended without a goodbye', broken: true });
    else
      parts.onEnd({
        lasted_seconds,
        why: `it was closed with ${code}${reason.length > 0 ? ` (${reason})` : ''}`,
        broken: !regularCodes.includes(code),
      });
  });

  return {
    send,
    refuse,
    close,
    terminate: () => socket.terminate(),
    ping: () => {
      if (isOpen()) socket.ping();
    },
    dropSlowReader,
    lastHeardMs: () => lastHeardMs,
  };
}
