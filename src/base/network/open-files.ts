/** How many files, connections among them, this process may have open. Node raises the soft limit to the hard one at start. */

/** Where there is no limit, and where it cannot be read. */
const unlimited = 1_000_000;

export function openFilesLimit(): number {
  // Without it the report looks every network interface up.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | 'unlimited' } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : unlimited;
}
