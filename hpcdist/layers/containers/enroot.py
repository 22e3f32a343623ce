"""Enroot: the names that it has for images, for the runtimes on top of it."""

from __future__ import annotations

from hpcdist.experiment.image import Image, refused


class Enroot:
    """A runtime whose images enroot fetches: those of registries, and files in its own format."""

    name = "enroot"
    program = ""
    launchers: frozenset[str] = frozenset({"srun"})

    def image(self, image: Image) -> str:
        """Return the image as enroot names it: ``REGISTRY#NAME``; a file begins with ``.`` or ``/``.

        Raises:
            PlanError: for another format, or a digest, which enroot's names have no place for.
        """
        if image.form == "file" and image.text.endswith((".sqsh", ".squashfs")):
            return beginning_with_a_folder(image.text)
        if image.form != "registry":
            hint = "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"
            raise refused(image, self.name, hint)
        if "@" in image.text:
            raise refused(image, self.name, "write its tag (NAME:TAG)")
        return image.text.replace("/", "#", 1) if image.host else image.text


def beginning_with_a_folder(path: str) -> str:
    """Return a path that no name of an image can be taken for."""
    return path if path.startswith((".", "/")) else f"./{path}"
