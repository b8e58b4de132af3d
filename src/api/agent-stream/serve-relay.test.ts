/** A relay's stream stays open for days, so each batch counts as a use of its token. */
import { expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { ApiServices } from '../services.ts';
import { serveRelay } from './serve-relay.ts';
import { FakeSocket } from './testing/fake-socket.ts';

test('records a use of the relay token with every batch', async () => {
  const note = vi.fn();
  const services = {
    clock: virtualClock(),
    log: {},
    agentStreams: { addRelay: () => () => {} },
    beats: { waitForRoom: async () => {} },
    tokenUses: { note },
  } as unknown as ApiServices;
  const socket = new FakeSocket();
  const relay = { token_id: 'tok_1', name: 'rack-7', pool: 'metal', expires_at: null };
  serveRelay(socket as unknown as WebSocket, { relay, correlation_id: 'c' as never }, services);
  expect(note).not.toHaveBeenCalled();
  for (const seq of [1, 2]) socket.receive({ seq, beats: [{}] });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(2));
  expect(note.mock.calls).toEqual([['tok_1'], ['tok_1']]);
});
