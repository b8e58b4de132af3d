/**
 * Lets a whole test file go on as a plain user where it was started by root, who is refused almost nothing. There is
 * no way back, so it is called before anything is made; and files that the same worker runs afterwards are plain users as well.
 */
const nobody = 65_534;

export function becomePlainUser(): void {
  if (process.getuid?.() !== 0) return;
  process.setgroups?.([]);
  process.setgid?.(nobody);
  process.setuid?.(nobody);
}
