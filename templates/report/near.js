"use strict";
// Keeps in `near` the plots that can be seen, or almost, and draws those of them that are stale.
function watchNear(plots, near, stale, draw) {
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) near.add(target);
        else near.delete(target);
        if (isIntersecting && stale.has(target)) draw(target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const div of plots) watch.observe(div);
}
