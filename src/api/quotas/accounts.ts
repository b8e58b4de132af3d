/** Token buckets by key, in memory and bounded: the balance of each writer, in rows and in bytes. */
import type { Clock } from '../../base/clock.ts';
import type { WriteQuota } from '../../lifecycle/limits.ts';

interface Balance {
  rows: number;
  bytes: number;
  atMs: number;
}

export interface Accounts {
  /** Writing is paid for afterwards, so a balance may go below zero, but by no more than one full allowance. Below zero: a refund. */
  charge(key: string, quota: WriteQuota, rows: number, bytes: number): void;
  /** How long until the balance is above zero. */
  waitSeconds(key: string, quota: WriteQuota): number;
  size(): number;
}

/** About 20 MB. A balance that is full again needs no entry, so only this many busy writers are told apart. */
const maxAccounts = 100_000;

export function createAccounts(clock: Clock): Accounts {
  // A Map iterates in order of insertion; entries are re-inserted when charged, so the first is the least recently used.
  const balances = new Map<string, Balance>();

  const refilled = (before: Balance | undefined, quota: WriteQuota, atMs: number): Balance => {
    if (!before) return { rows: quota.rows, bytes: quota.bytes, atMs };
    const seconds = Math.max(0, atMs - before.atMs) / 1000;
    return {
      rows: Math.min(quota.rows, before.rows + seconds * quota.rows_per_second),
      bytes: Math.min(quota.bytes, before.bytes + seconds * quota.bytes_per_second),
      atMs,
    };
  };
  const secondsUntil = (balance: number, perSecond: number) => (balance > 0 ? 0 : (1 - balance) / perSecond);

  return {
    charge(key, quota, rows, bytes) {
      const balance = refilled(balances.get(key), quota, clock.monotonicMs());
      // Without the floor one caller could run up a debt that takes hours to refill.
      balance.rows = Math.min(Math.max(balance.rows - rows, -quota.rows), quota.rows);
      balance.bytes = Math.max(balance.bytes - bytes, -quota.bytes);
      balances.delete(key);
      if (balances.size >= maxAccounts) {
        const [oldest] = balances.keys();
        balances.delete(oldest ?? '');
      }
      balances.set(key, balance);
    },
    waitSeconds(key, quota) {
      const before = balances.get(key);
      if (!before) return 0;
      const { rows, bytes } = refilled(before, quota, clock.monotonicMs());
      return Math.max(secondsUntil(rows, quota.rows_per_second), secondsUntil(bytes, quota.bytes_per_second));
    },
    size: () => balances.size,
  };
}
