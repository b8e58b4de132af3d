/** Decides whether a pool reuses its machines. */

/** The fields of a pool document that decide. */
export interface ReusePolicy {
  driver: string;
  reuse?: boolean;
}

/**
 * True: a release cleans the machine and frees it for the next allocation. False: it destroys the
 * machine. By default only external machines are reused, because no driver could replace them.
 */
export const reusesNodes = ({ driver, reuse }: ReusePolicy): boolean => reuse ?? driver === 'external';
