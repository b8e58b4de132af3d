/** The logo and the name. */
import styles from './Brand.module.css';

export function Brand({ large }: { large?: boolean }) {
  return (
    <span className={styles.brand} data-large={large || undefined}>
      <svg viewBox="0 0 32 32" className={styles.mark} aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#1b5f8c" />
        <path d="M6 22.5 26 16v3.6L6 26z" fill="#9fd3c4" />
        <path d="M9.5 18.2 22.8 13.9l-2-4.4-9.6 3.1z" fill="#fff" />
      </svg>
      Slipway
    </span>
  );
}
