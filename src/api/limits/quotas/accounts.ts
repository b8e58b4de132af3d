/**
 * Keeps a token bucket for each writer or caller, with a balance in rows and in bytes. The buckets
 * are in memory and their number is limited.
 */
import type { Clock } from '../../../base/clock.ts';
import type { WriteQuota } from '../../../lifecycle/limits/limits.ts';

interface Balance {
  rows: number;
  bytes: number;
  atMs: number;
  /** Reserved for writes in progress, which are not charged yet. */
  reserved_rows: number;
  reserved_bytes: number;
  in_progress: number;
}

export interface Accounts {
  /**
   * Charges a write after it happened, so a balance may go below zero, but by no more than one full
   * allowance. A negative amount is a refund.
   */
  charge(key: string, quota: WriteQuota, rows: number, bytes: number): void;
  /** Holds an amount for a write in progress, so that concurrent writes cannot spend it twice. */
  reserve(key: string, quota: WriteQuota, rows: number, bytes: number): void;
  release(key: string, rows: number, bytes: number): void;
  inProgress(key: string): number;
  /** Seconds until the balance is positive; 1 if only reservations use it up. */
  waitSeconds(key: string, quota: WriteQuota): number;
  /** Refills the balance; reservations stay. */
  reset(key: string, quota: WriteQuota): void;
  size(): number;
}

const reservedRetrySeconds = 1;
/** About 20 MB. A missing entry counts as full, so evicting an idle writer changes nothing. */
const maxAccounts = 100_000;

export function createAccounts(clock: Clock): Accounts {
  // A Map iterates in insertion order, and charges and reservations insert anew, so the first entry
  // is the least recently used.
  const balances = new Map<string, Balance>();

  const refill = (balance: Balance | undefined, quota: WriteQuota, atMs: number): Balance => {
    if (!balance)
      return { rows: quota.rows, bytes: quota.bytes, atMs, reserved_rows: 0, reserved_bytes: 0, in_progress: 0 };
    const seconds = Math.max(0, atMs - balance.atMs) / 1000;
    return {
      ...balance,
      rows: Math.min(quota.rows, balance.rows + seconds * quota.rows_per_second),
      bytes: Math.min(quota.bytes, balance.bytes + seconds * quota.bytes_per_second),
      atMs,
    };
  };
  const store = (key: string, balance: Balance) => {
    balances.delete(key);
    if (balances.size >= maxAccounts) {
      const [oldest] = balances.keys();
      balances.delete(oldest ?? '');
    }
    balances.set(key, balance);
  };
  const secondsUntil = (balance: number, perSecond: number) => (balance > 0 ? 0 : (1 - balance) / perSecond);

  return {
    charge(key, quota, rows, bytes) {
      const balance = refill(balances.get(key), quota, clock.monotonicMs());
      // Without the floor one caller could run up a debt that takes hours to refill.
      balance.rows = Math.min(Math.max(balance.rows - rows, -quota.rows), quota.rows);
      balance.bytes = Math.max(balance.bytes - bytes, -quota.bytes);
      store(key, balance);
    },
    reserve(key, quota, rows, bytes) {
      const balance = refill(balances.get(key), quota, clock.monotonicMs());
      balance.reserved_rows += rows;
      balance.reserved_bytes += bytes;
      balance.in_progress++;
      store(key, balance);
    },
    release(key, rows, bytes) {
      const balance = balances.get(key);
      if (!balance) return;
      // The entry may have been evicted and recreated since the reservation.
      balance.reserved_rows = Math.max(0, balance.reserved_rows - rows);
      balance.reserved_bytes = Math.max(0, balance.reserved_bytes - bytes);
      balance.in_progress = Math.max(0, balance.in_progress - 1);
    },
    inProgress: (key) => balances.get(key)?.in_progress ?? 0,
    waitSeconds(key, quota) {
      const balance = balances.get(key);
      if (!balance) return 0;
      const { rows, bytes, reserved_rows, reserved_bytes } = refill(balance, quota, clock.monotonicMs());
      const seconds = Math.max(secondsUntil(rows, quota.rows_per_second), secondsUntil(bytes, quota.bytes_per_second));
      const isReserved = rows - reserved_rows <= 0 || bytes - reserved_bytes <= 0;
      return seconds === 0 && isReserved ? reservedRetrySeconds : seconds;
    },
    reset(key, { rows, bytes }) {
      const balance = balances.get(key);
      if (balance) Object.assign(balance, { rows, bytes, atMs: clock.monotonicMs() });
    },
    size: () => balances.size,
  };
}
