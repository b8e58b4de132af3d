/** What every reply carries, whichever way it was made. */
export const everyReply = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;
