/** What is wrong for good, and is said before anything is made that could only fail. */
import type { DriverFailure } from './driver.ts';

export const failedForGood = (
  code: string,
  message: string,
  { owner_layer = 'provider', phase }: Partial<Pick<DriverFailure, 'owner_layer' | 'phase'>> = {},
): DriverFailure => ({ outcome: 'failed', owner_layer, code, message, retryable: false, ...(phase && { phase }) });

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** An address that means something only on the host that says it. */
export const isLoopback = (address: string): boolean => loopback.test(new URL(address).hostname);
