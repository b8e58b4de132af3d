/** What is wrong for good, and is said before anything is made that could only fail. */
import type { DriverFailure } from './driver.ts';

export const failedForGood = (
  code: string,
  message: string,
  { owner_layer = 'provider', phase }: Partial<Pick<DriverFailure, 'owner_layer' | 'phase'>> = {},
): DriverFailure => ({ outcome: 'failed', owner_layer, code, message, retryable: false, ...(phase && { phase }) });

export { isLoopbackUrl as isLoopback } from '../base/network/insecure-http.ts';
