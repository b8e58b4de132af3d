/** When an expiring join token is worth a notice. Pure. */

/** In the last tenth of its life, and at most a week ahead. */
const noticeShare = 0.1;
export const maxNoticeSeconds = 7 * 86_400;

export function noticeFrom({ created_at, expires_at }: { created_at: Date; expires_at: Date }): Date {
  const lifeMs = expires_at.getTime() - created_at.getTime();
  return new Date(expires_at.getTime() - Math.min(lifeMs * noticeShare, maxNoticeSeconds * 1000));
}

/** A name that nobody else has asked for in this time is contested no more. */
export const contestQuietSeconds = 86_400;
