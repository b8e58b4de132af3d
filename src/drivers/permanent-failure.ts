/** A failure that no retry can fix, returned before anything is created that could only fail. */
import type { DriverFailure } from './driver.ts';

export const permanentFailure = (
  code: string,
  message: string,
  { owner_layer = 'provider', phase }: Partial<Pick<DriverFailure, 'owner_layer' | 'phase'>> = {},
): DriverFailure => ({ outcome: 'failed', owner_layer, code, message, retryable: false, ...(phase && { phase }) });

export { isLoopbackUrl as isLoopback } from '../base/network/insecure-http.ts';
