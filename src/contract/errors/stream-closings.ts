/**
 * Reasons for closing an agent's or a relay's stream: an error code, sent as the reason, with the
 * number of the close frame. `broken` closings are failures of the connection and are stored as
 * evidence; the others are recorded elsewhere.
 */
import type { ErrorCode } from './errors.ts';

interface Closing {
  close_code: number;
  broken: boolean;
}

export const streamClosings = {
  not_ready: { close_code: 1001, broken: false },
  unsupported_media_type: { close_code: 1003, broken: true },
  stream_overrun: { close_code: 1013, broken: true },
  credential_unknown: { close_code: 4401, broken: false },
  credential_expired: { close_code: 4401, broken: false },
  token_unknown: { close_code: 4401, broken: false },
  token_expired: { close_code: 4401, broken: false },
  stream_silent: { close_code: 4408, broken: true },
  instance_fenced: { close_code: 4409, broken: false },
  stream_replaced: { close_code: 4410, broken: false },
} as const satisfies Partial<Record<ErrorCode, Closing>>;

export type ClosingCode = keyof typeof streamClosings;

export const isClosing = (code: ErrorCode): code is ClosingCode => Object.hasOwn(streamClosings, code);
