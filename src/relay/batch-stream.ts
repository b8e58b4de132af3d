/**
 * Keeps the relay's stream to the control plane open. The relay sends batches on it and receives
 * the results. Reconnects with growing pauses.
 */
import type { WebSocket } from 'ws';
import { createBackoff } from '../base/backoff.ts';
import { type Clock, pause } from '../base/clock.ts';
import { trustedCertificates } from '../base/network/trusted-certificates.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { BatchBeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { agentRoutes } from '../contract/routes/agent.ts';
import { NotForwarded } from './batcher.ts';
import { readResults, refusalOf } from './replies.ts';

export interface BatchStreamParts {
  clock: Clock;
  log: Log;
  /** The URL for the next attempt. */
  url(): string;
  ca: string | null;
  token: string;
  timeout_ms: number;
}

export interface BatchStream {
  isOpen(): boolean;
  send(beats: BatchBeat[]): Promise<HeartbeatResult[]>;
  stop(): Promise<void>;
}

const retry = { first_ms: 500, max_ms: 60_000 };
/** After a connection that lasted this long, the pauses start again at the shortest. */
const stableMs = 30_000;
const maxFrameBytes = 4 * 1024 * 1024;
/** How long to wait for the close handshake when the relay stops. */
const closeTimeoutMs = 1_000;

interface PendingBatch {
  beats: number;
  resolve(results: HeartbeatResult[]): void;
  reject(error: NotForwarded): void;
}

/** Opens one connection. `closeReason` resolves when it closes. */
function connect(parts: BatchStreamParts, WebSocketClient: typeof WebSocket, signal: AbortSignal) {
  const socket = new WebSocketClient(parts.url().replace(/^http/, 'ws') + agentRoutes['agent-stream'].path, {
    headers: { authorization: `Bearer ${parts.token}` },
    ca: trustedCertificates(parts.ca),
    perMessageDeflate: false,
    handshakeTimeout: parts.timeout_ms,
    maxPayload: maxFrameBytes,
  });
  const pendingBatches = new Map<number, PendingBatch>();
  let seq = 0;
  let socketError = '';
  let cancelTerminate = () => {};
  const stop = () => {
    // Aborting the handshake would look like a crash to a control plane that has accepted it
    // already, so wait for open and then close.
    if (socket.readyState === socket.CONNECTING) socket.once('open', () => socket.close(1000));
    else socket.close(1000);
    cancelTerminate = parts.clock.after(closeTimeoutMs, () => socket.terminate());
  };
  signal.addEventListener('abort', stop, { once: true });
  socket.on('error', (error) => {
    socketError = error.message;
  });
  socket.on('message', (data) => {
    const frame = JSON.parse(String(data)) as { seq?: number; results?: unknown; problem?: unknown };
    const pending = pendingBatches.get(frame.seq ?? -1);
    if (!pending) return;
    pendingBatches.delete(frame.seq ?? -1);
    const results = readResults(frame.results, pending.beats);
    if (results) pending.resolve(results);
    else pending.reject(refusalOf(frame.problem));
  });
  const closeReason = new Promise<string>((resolve) => {
    socket.on('close', (code, reason) => {
      signal.removeEventListener('abort', stop);
      cancelTerminate();
      const why = socketError || `closed with ${code}${reason.length > 0 ? ` (${reason})` : ''}`;
      for (const { reject } of pendingBatches.values()) reject(new NotForwarded(`the stream ended: ${why}`));
      pendingBatches.clear();
      resolve(why);
    });
  });
  return {
    socket,
    closeReason,
    send: (beats: BatchBeat[]) =>
      new Promise<HeartbeatResult[]>((resolve, reject) => {
        const number = ++seq;
        // If no answer comes, the server is unreachable. Closing the connection makes the batcher
        // send the batch again.
        const cancel = parts.clock.after(parts.timeout_ms, () => socket.terminate());
        pendingBatches.set(number, {
          beats: beats.length,
          resolve: (results) => {
            cancel();
            resolve(results);
          },
          reject: (error) => {
            cancel();
            reject(error);
          },
        });
        socket.send(JSON.stringify({ seq: number, beats }));
      }),
  };
}

export function keepBatchStream(parts: BatchStreamParts): BatchStream {
  const { clock, log } = parts;
  const stopController = new AbortController();
  let current: ReturnType<typeof connect> | undefined;

  const run = async () => {
    const { WebSocket: client } = await import('ws');
    const pauses = createBackoff(retry);
    while (!stopController.signal.aborted) {
      const startedMs = clock.monotonicMs();
      const connection = connect(parts, client, stopController.signal);
      connection.socket.once('open', () => {
        current = connection;
        log.info('the stream to the control plane is open');
      });
      const why = await connection.closeReason;
      const wasOpen = current === connection;
      current = undefined;
      if (stopController.signal.aborted) return;
      if (wasOpen || pauses.tries() === 0)
        log.warn({ why }, 'no stream to the control plane; batches are sent by POST');
      if (wasOpen && clock.monotonicMs() - startedMs > stableMs) pauses.reset();
      await pause(clock, pauses.nextMs(), stopController.signal);
    }
  };
  const done = run();

  return {
    isOpen: () => current !== undefined && current.socket.readyState === current.socket.OPEN,
    send: (beats) => current?.send(beats) ?? Promise.reject(new NotForwarded('the stream is not open')),
    async stop() {
      stopController.abort();
      await done;
    },
  };
}
