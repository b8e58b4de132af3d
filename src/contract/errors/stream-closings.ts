/**
 * The error codes with which the server closes a stream of an agent or a relay. The code is sent as
 * the reason of the close frame, and `close_code` as its number.
 */
import type { ErrorCode } from './errors.ts';

interface Closing {
  close_code: number;
  /**
   * The connection failed, so the stream reports the closing as evidence. Any other closing needs
   * no evidence, or follows from a decision that has its own, such as a fence.
   */
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

export const isClosingCode = (code: ErrorCode): code is ClosingCode => Object.hasOwn(streamClosings, code);
