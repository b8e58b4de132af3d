/**
 * Ships the spooled lines in order. A line is removed when the server has acknowledged it, or
 * when it was refused for its content or size.
 */
import type { Clock } from '../../base/clock.ts';
import { isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import type { Timing } from '../timing.ts';
import { type ShipLoop, type ShipResult, shipLoop } from './ship-loop.ts';
import type { Spool } from './spool.ts';

export interface LogShipperParts {
  clock: Clock;
  spool: Spool;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

export interface LogShipper extends ShipLoop {
  /** Ships the remaining lines until the signal aborts. Call it only after the loop has ended. */
  flush(signal: AbortSignal): Promise<void>;
}

const payloadTooLarge = 413;

export function logShipper({ clock, spool, server, log, timing, signal }: LogShipperParts): LogShipper {
  let max_lines = Number.POSITIVE_INFINITY;
  /** Numbers of the agent's own log lines that report a refused line. */
  let refusalReports: number[] = [];

  const ship = async (until: AbortSignal): Promise<ShipResult> => {
    const batch = spool.batch(max_lines);
    if (!batch) return 'empty';
    // After a power cut, a number that the server already has must not be used again.
    spool.sync();
    const answer = await server.logs(batch.body, until);
    if (answer.ok) {
      max_lines = Number.POSITIVE_INFINITY;
      spool.acknowledge(answer.body.acknowledged_seq);
      if (answer.body.acknowledged_seq >= batch.first) return 'more';
      return { ...nothingAcknowledged, detail: `acknowledged ${answer.body.acknowledged_seq} of ${batch.first}` };
    }
    const { failure } = answer;
    // The server refuses a fenced instance but stores its lines.
    const { acknowledged_seq } = failure;
    if (acknowledged_seq !== undefined && acknowledged_seq >= batch.first) {
      spool.acknowledge(acknowledged_seq);
      return 'more';
    }
    const isRefused =
      !isTransient(failure) && ['invalid_request', 'malformed_json', 'body_too_large'].includes(failure.code);
    // A proxy may have a lower limit than the server; retrying the same batch would never end.
    if (!isRefused && (failure.status !== payloadTooLarge || batch.first === batch.last)) return failure;
    // Halve the batch until the refused line is alone, and drop only that line.
    if (batch.first < batch.last) {
      max_lines = Math.max(1, Math.floor((batch.last - batch.first + 1) / 2));
      return 'more';
    }
    spool.acknowledge(batch.first);
    // If the report of a refused line is refused itself, reporting it again would never end.
    const isRefusalReport = refusalReports.includes(batch.first);
    refusalReports = refusalReports.filter((seq) => seq > batch.first);
    if (!isRefusalReport) {
      log.error('the server refuses a log line; the line is dropped', { seq: batch.first, detail: failure.detail });
      refusalReports.push(spool.lastSeq());
    }
    return 'more';
  };

  const loop = shipLoop({
    clock,
    signal,
    ship: () => ship(signal),
    batch_ms: timing.log_batch_ms,
    retry: timing.ship_retry,
  });
  spool.onAppend(loop.wake);
  return {
    ...loop,
    async flush(until) {
      await loop.done;
      while (!until.aborted && (await ship(until)) === 'more');
    },
  };
}

const nothingAcknowledged = {
  call: 'agent-logs',
  owner_layer: 'control_plane',
  layer: 'control_plane',
  code: 'logs_not_taken',
  status: 200,
  retry_after_seconds: null,
  deadline_at: null,
};
