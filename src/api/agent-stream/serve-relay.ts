/**
 * Serves the stream of a relay. Each frame is a batch of heartbeats, processed as if it had come by
 * `POST /v1/agent/heartbeats`, and is answered with the results.
 */
import type { WebSocket } from 'ws';
import { now } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import { BatchFrame } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { badBeats } from '../../contract/routes/agent.ts';
import { acceptBatch, relaySource } from '../heartbeats/accept-batch.ts';
import { actorOf, type Relay } from '../http/callers.ts';
import { compileCheck } from '../http/validation.ts';
import type { ApiServices } from '../services.ts';
import { openWire } from './wire.ts';

const checkBatch = compileCheck(BatchFrame, 'body', 'invalid_request', badBeats('/beats/*'));
const limits = { waiting_frames: 16, unsent_bytes: 4 * 1024 * 1024 };

/** A relay without agents sends nothing, so it is pinged. */
const pingAfterMs = 20_000;
const maxSilentMs = 60_000;

export function serveRelay(
  socket: WebSocket,
  { relay, correlation_id }: { relay: Relay; correlation_id: CorrelationId },
  services: ApiServices,
): void {
  const { clock, log, agentStreams } = services;
  const wire = openWire(socket, {
    clock,
    log,
    correlation_id,
    limits,
    async handleFrame(frame) {
      const { seq, beats } = checkBatch(frame) as BatchFrame;
      services.tokenUses.note(relay.token_id);
      const results = await acceptBatch(beats, { relay, source: relaySource(relay) }, services);
      wire.send(seq === undefined ? { results } : { seq, results });
    },
    onEnd(end) {
      leave();
      if (end.broken) agentStreams.reportBroken({ ...end, of: 'relay', actor: actorOf(relay), correlation_id });
    },
  });
  const leave = agentStreams.addRelay(relay.token_id, {
    end: wire.close,
    terminate: wire.terminate,
    // A relay's stream gets no facts other than the revocation of its token.
    observe: () => wire.refuse(new ApiProblem('token_unknown', 'The token of this relay was revoked.')),
    check(at_ms) {
      wire.dropSlowReader();
      const silentMs = at_ms - wire.lastHeardMs();
      if (relay.expires_at && relay.expires_at <= now(clock)) wire.refuse(new ApiProblem('token_expired'));
      else if (silentMs > maxSilentMs) wire.close('stream_silent');
      else if (silentMs > pingAfterMs) wire.ping();
    },
  });
}
